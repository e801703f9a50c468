#include "egress/sandbox_egress.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "egress/dns_server.hpp"
#include "egress/proxy.hpp"
#include "egress/relay.hpp"

namespace cove::egress {
namespace {

namespace asio = boost::asio;
namespace ip = asio::ip;
namespace json = boost::json;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxLearned = 512;
constexpr std::size_t kMaxLearnedPorts = 16;

// The family and type of a descriptor that somebody else made, or nothing if it is no such socket.
std::optional<int> family_of(int socket, int type) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  int found = 0;
  socklen_t found_size = sizeof found;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return std::nullopt;
  if (::getsockopt(socket, SOL_SOCKET, SO_TYPE, &found, &found_size) != 0 || found != type) return std::nullopt;
  return address.ss_family;
}

Result<> take_listener(const asio::any_io_executor& executor, UniqueFd& socket, std::optional<ip::tcp::acceptor>& into,
                       std::string_view name) {
  if (!socket) return {};
  const auto family = family_of(socket.get(), SOCK_STREAM);
  if (!family) return fail(Errc::invalid, fmt::format("the {} socket is no TCP socket", name));
  into.emplace(executor);
  error_code failed;
  into->assign(*family == AF_INET6 ? ip::tcp::v6() : ip::tcp::v4(), socket.get(), failed);
  if (failed) return fail(Errc::io, fmt::format("the {} socket cannot be served: {}", name, failed.message()));
  (void)socket.release();
  into->non_blocking(true, failed);
  return {};
}

}  // namespace

SandboxEgress::SandboxEgress(Common& shared, Policy policy, std::function<void()> on_audit)
    : common(shared),
      meter(policy.caps, Clock::now()),
      audit(std::move(on_audit)),
      tasks(shared.executor,
            [](std::string_view, const std::exception_ptr&) {}),  // the flow it served is cut by its end
      policy_(std::make_shared<const Policy>(std::move(policy))) {
  renew_authority();
}

// The same for the same names: what trusts it goes on.
void SandboxEgress::renew_authority() {
  std::vector<std::string> wanted;
  for (const auto& rule : policy_->headers) wanted.push_back(rule.name);
  std::ranges::sort(wanted);
  const auto same = std::ranges::unique(wanted);
  wanted.erase(same.begin(), same.end());
  if (wanted.empty()) authority_.reset();
  if (wanted.empty() || (authority_ && authority_->names() == wanted)) return;
  authority_ = EdgeCa::create(std::move(wanted)).value_or(nullptr);
}

Result<> SandboxEgress::start(Sockets sockets) {
  COVE_CHECK(take_listener(common.executor, sockets.relay4, relay4_, "IPv4 relay"));
  COVE_CHECK(take_listener(common.executor, sockets.relay6, relay6_, "IPv6 relay"));
  COVE_CHECK(take_listener(common.executor, sockets.dns_tcp, dns_tcp_, "DNS over TCP"));
  COVE_CHECK(take_listener(common.executor, sockets.proxy, proxy_, "proxy"));
  if (sockets.dns_udp) {
    const auto family = family_of(sockets.dns_udp.get(), SOCK_DGRAM);
    if (!family) return fail(Errc::invalid, "the DNS socket is no UDP socket");
    dns_udp_.emplace(common.executor);
    error_code failed;
    dns_udp_->assign(*family == AF_INET6 ? ip::udp::v6() : ip::udp::v4(), sockets.dns_udp.get(), failed);
    if (failed) return fail(Errc::io, fmt::format("the DNS socket cannot be served: {}", failed.message()));
    (void)sockets.dns_udp.release();
    dns_udp_->non_blocking(true, failed);
  }
  const auto self = shared_from_this();
  if (relay4_) tasks.spawn("relay", serve_relay(self, *relay4_));
  if (relay6_) tasks.spawn("relay", serve_relay(self, *relay6_));
  if (dns_udp_) tasks.spawn("dns", serve_dns(self, *dns_udp_));
  if (proxy_) tasks.spawn("proxy", serve_proxy(self, *proxy_));
  if (dns_tcp_) tasks.spawn("dns", serve_dns_streams(self, *dns_tcp_));
  return {};
}

void SandboxEgress::change(Policy policy, Scope scope) {
  policy_ = std::make_shared<const Policy>(std::move(policy));
  refusals.clear();
  renew_authority();
  meter.change(policy_->caps, Clock::now());
  if (scope == Scope::new_connections) return;
  for (auto* flow : std::list<Flow*>(flows_)) {
    // One that is not judged yet will be, by what holds then.
    if (!flow->judged) continue;
    auto decision = judge(*flow);
    const auto& address = flow->subject.address;
    if (decision.verdict == Verdict::allowed && !flow->subject.name.empty() && address) {
      if (auto resolved = decide_resolved(*policy_, *address, flow->subject.port); resolved.verdict == Verdict::denied)
        decision = std::move(resolved);
    }
    if (decision.verdict == Verdict::allowed) continue;
    flow->decision = std::move(decision);
    flow->recorded = false;
    record(*flow);
    flow->cut("policy changed");
  }
}

void SandboxEgress::close() {
  closed_ = true;
  for (auto* flow : std::list<Flow*>(flows_)) flow->cut("sandbox closed");
  tasks.cancel();
  error_code ignored;
  for (auto* acceptor : {&relay4_, &relay6_, &dns_tcp_, &proxy_}) {
    if (*acceptor) (*acceptor)->close(ignored);
  }
  if (dns_udp_) dns_udp_->close(ignored);
}

std::shared_ptr<Flow> SandboxEgress::admit(ip::tcp::socket client, AuditKind kind) {
  std::string full;
  if (!meter.room_for(flows_.size())) full = "caps.connections";
  if (common.connections >= common.max_connections || flows_.size() >= common.max_connections / 4)
    full = "connections of the server";
  std::shared_ptr<Flow> flow(new Flow(std::move(client), kind), [self = shared_from_this()](Flow* ended) {
    const std::unique_ptr<Flow> owner(ended);
    self->leave(*ended);
  });
  flows_.push_back(flow.get());
  ++common.connections;
  ++counters.connections;
  error_code ignored;
  flow->client.non_blocking(true, ignored);
  flow->client.set_option(ip::tcp::no_delay(true), ignored);
  if (closed_) flow->cut("sandbox closed");
  if (full.empty()) return flow;
  refuse(*flow, {.verdict = Verdict::denied, .rule = full});
  return nullptr;
}

Decision SandboxEgress::judge(Flow& flow) {
  const auto& subject = flow.subject;
  if (!subject.name.empty()) return decide_name(*policy_, subject.name, subject.port);
  if (subject.address) return decide_address(*policy_, *subject.address, subject.port);
  return {.verdict = Verdict::denied, .rule = "unknown destination"};
}

void SandboxEgress::record(Flow& flow) {
  flow.judged = true;
  if (flow.recorded) return;
  flow.recorded = true;
  if (flow.decision.verdict == Verdict::denied) {
    ++counters.refused;
    const auto& subject = flow.subject;
    if (!subject.name.empty() || subject.address)
      refusals.add(subject.name.empty() ? subject.address->to_string() : subject.name, subject.port, flow.decision.rule,
                   Clock::now());
  }
  if (flow.decision.verdict == Verdict::allowed) learn(flow);
  audit.decided(flow.subject, flow.decision);
}

void SandboxEgress::refuse(Flow& flow, Decision decision) {
  flow.decision = std::move(decision);
  record(flow);
  flow.cut(flow.decision.rule);
}

void SandboxEgress::leave(Flow& flow) {
  flows_.remove(&flow);
  --common.connections;
  counters.bytes_in += flow.bytes_in;
  counters.bytes_out += flow.bytes_out;
  if (!flow.recorded || (flow.decision.verdict == Verdict::denied && flow.bytes_in + flow.bytes_out == 0)) return;
  const auto duration = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - flow.begun);
  audit.closed(flow.subject, flow.decision,
               {.bytes_in = flow.bytes_in, .bytes_out = flow.bytes_out, .duration = duration, .error = flow.error});
}

void SandboxEgress::learn(const Flow& flow) {
  if (!policy_->learn) return;
  const auto& subject = flow.subject;
  auto host = subject.name;
  if (host.empty() && subject.address)
    host = subject.address->is_v6() ? fmt::format("[{}]", subject.address->to_string()) : subject.address->to_string();
  if (learned_.size() >= kMaxLearned && !learned_.contains(host)) return;
  auto& ports = learned_[host];
  if (ports.size() < kMaxLearnedPorts) ports.insert(subject.port);
}

json::object SandboxEgress::inspect() const {
  auto in = counters.bytes_in;
  auto out = counters.bytes_out;
  for (const auto* flow : flows_) {
    in += flow->bytes_in;
    out += flow->bytes_out;
  }
  json::object object;
  object["connections"] = {{"open", flows_.size()}, {"total", counters.connections}, {"refused", counters.refused}};
  object["bytes"] = {{"in", in}, {"out", out}};
  object["dns"] = {
      {"queries", counters.dns_queries}, {"denied", counters.dns_denied}, {"dropped", counters.dns_dropped}};
  object["lost"] = audit.lost();
  object["names"] = names.size();
  json::array refused;
  for (const auto& one : refusals.list()) {
    const auto ago = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - one.at);
    refused.push_back({{"host", one.host}, {"port", one.port}, {"rule", one.rule}, {"agoMs", ago.count()}});
  }
  object["refused"] = std::move(refused);
  object["policy"] = to_json(*policy_, Secrets::hidden);
  if (policy_->learn) {
    json::array proposed;
    for (const auto& [host, ports] : learned_) proposed.emplace_back(fmt::format("{}:{}", host, fmt::join(ports, ",")));
    object["proposed"] = std::move(proposed);
  }
  return object;
}

std::string SandboxEgress::describe() const {
  static constexpr std::size_t kShown = 20;
  auto text = fmt::format("The network policy of this sandbox: mode {}", word_of(policy_->mode));
  const auto list = [&text](std::string_view word, const std::vector<Target>& targets) {
    if (targets.empty()) return;
    text += fmt::format("; {}", word);
    for (std::size_t i = 0; i < std::min(targets.size(), kShown); ++i) text += " " + text_of(targets[i]);
    if (targets.size() > kShown) text += fmt::format(" and {} more", targets.size() - kShown);
  };
  list("allow", policy_->allow);
  list("deny", policy_->deny);
  text += ". Outside, `cove network ID --allow HOST:PORT`, or --allow of `cove run`, changes it.";
  constexpr std::chrono::minutes kLately{1};
  for (const auto& one : refusals.list()) {
    if (Clock::now() - one.at > kLately) continue;
    text += fmt::format("\nRefused (Network is unreachable): {}{}, by {}", one.host,
                        one.port == 0 ? "" : fmt::format(":{}", one.port), one.rule);
  }
  return text;
}

}  // namespace cove::egress
