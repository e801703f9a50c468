#include "network/networks.hpp"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/io.hpp"
#include "network/kernel_order.hpp"
#include "network/requested.hpp"
#include "sandbox/files.hpp"
#include "sys/record.hpp"

namespace cove::network {
namespace {

namespace json = boost::json;

bool wants_ways(const egress::Policy& policy) {
  return policy.mode != egress::Mode::none || policy.learn;
}

Result<egress::Policy> read_policy(std::string_view text) {
  boost::system::error_code failed;
  const auto value = json::parse(text, failed);
  if (failed) return fail(Errc::invalid, "network is not JSON");
  return egress::parse_policy(value, "network");
}

Result<UniqueFd> in_memory(std::string_view text) {
  UniqueFd memory(::memfd_create("policy", MFD_CLOEXEC));
  if (!memory) return fail_errno(errno, "write down the policy");
  COVE_CHECK(write_all(memory.get(), text));
  return memory;
}

constexpr const char* kBundlePath = "/home/cove/.cove/ca-certificates.crt";
constexpr const char* kAuthorityPath = "/home/cove/.cove/authority.pem";
constexpr std::size_t kLongestBundle = 4 << 20;

// From the answer to open and change.
std::string certificate_in(const std::string& answer) {
  boost::system::error_code failed;
  const auto value = json::parse(answer, failed);
  const auto* object = failed ? nullptr : value.if_object();
  const auto* certificate = object != nullptr ? object->if_contains("ca") : nullptr;
  return certificate != nullptr && certificate->is_string() ? std::string(certificate->get_string()) : std::string();
}

// What the host trusts, and one more.
std::string bundle_with(const std::string& certificate) {
  for (const auto* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}) {
    if (const auto text = read_file_at(AT_FDCWD, path, kLongestBundle)) return *text + "\n" + certificate;
  }
  return certificate;
}

bool is_leaving(const sandbox::Sandbox& sandbox) {
  return sandbox.state() == sandbox::State::deleting || sandbox.state() == sandbox::State::gone;
}

SandboxId id_of(std::string_view text) {
  SandboxId id;
  std::copy_n(text.begin(), std::min(text.size(), id.text.size()), id.text.begin());
  return id;
}

}  // namespace

Networks::Networks(boost::asio::any_io_executor executor, async::TaskGroup& tasks, sandbox::Registry& registry,
                   Options options, std::function<void(std::string_view line)> warn)
    : executor_(executor),
      tasks_(tasks),
      registry_(registry),
      options_(std::move(options)),
      warn_(std::move(warn)),
      egress_(executor, tasks, [this](const SandboxId& id, std::string_view record) { on_decided(id, record); }) {
  registry_.set_networking(this);
}

void Networks::connect(UniqueFd socket) {
  egress_.connect(std::move(socket));
  for (auto& [id, network] : networks_) network->open = false;
  tasks_.spawn("open networks again", open_again());
}

async::Task<> Networks::open_again() {
  const auto networks = networks_;
  for (const auto& [id, network] : networks) {
    const auto sandbox = registry_.by_id(id);
    if (!sandbox || network->open || !wants_ways(network->policy)) continue;
    co_await acquire(network);
    Result<> opened;
    if (!network->open) opened = co_await open_ways(sandbox, network, network->policy);
    if (opened && sandbox->state() == sandbox::State::running) opened = co_await furnish(sandbox);
    network->busy = false;
    network->changed.notify_all();
    if (!opened) warn_(fmt::format("network closed sandbox={} reason=\"{}\"", id, opened.error().message));
  }
}

async::Task<> Networks::restore() {
  for (const auto& sandbox : registry_.all()) {
    const auto stored = registry_.store().sandboxes().network(sandbox->row().id);
    if (!stored || stored->empty()) continue;
    const auto text = registry_.store().secrets().open(sandbox->row().id, *stored);
    auto policy = text ? read_policy(*text) : Result<egress::Policy>(tl::unexpected<Error>(text.error()));
    if (!policy) {
      warn_(fmt::format("network closed sandbox={} reason=\"{}\"", sandbox->row().id, policy.error().message));
      continue;
    }
    of(sandbox->row().id)->policy = std::move(*policy);
  }
  co_await open_again();
}

Networks::Held Networks::of(const std::string& id) {
  auto& network = networks_[id];
  if (!network) network = std::make_shared<Network>(executor_);
  return network;
}

async::Task<> Networks::acquire(Held network) {
  while (network->busy) co_await network->changed.wait();
  network->busy = true;
}

async::Task<Result<>> Networks::open(std::shared_ptr<sandbox::Sandbox> sandbox, std::string policy_json) {
  egress::Policy policy;
  if (policy_json.empty()) {
    policy = options_.usual();
  } else {
    COVE_CO_TRY(policy, read_policy(policy_json));
  }
  if (!wants_ways(policy)) co_return Result<>();
  co_return co_await set(sandbox, std::move(policy), wire::EgressScope::new_connections);
}

// The bundle is the sandbox's own to change: it would deceive nobody but itself.
async::Task<Result<>> Networks::furnish(std::shared_ptr<sandbox::Sandbox> sandbox) {
  const auto found = networks_.find(sandbox->row().id);
  if (found == networks_.end()) co_return Result<>();
  const auto network = found->second;
  if (network->certificate == network->trusted) co_return Result<>();
  const auto certificate = network->certificate;
  std::vector<std::string> variables;
  if (!certificate.empty()) {
    const sandbox::SandboxFiles files(sandbox, [] { return false; });
    auto bundle = bundle_with(certificate);
    COVE_CO_CHECK(co_await files.write_all(kBundlePath, std::move(bundle), {}));
    COVE_CO_CHECK(co_await files.write_all(kAuthorityPath, certificate, {}));
    for (const auto* name : {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT"})
      variables.push_back(fmt::format("{}={}", name, kBundlePath));
    variables.push_back(fmt::format("NODE_EXTRA_CA_CERTS={}", kAuthorityPath));
  }
  sandbox->set_network_variables(std::move(variables));
  network->trusted = certificate;
  co_return Result<>();
}

void Networks::forget(const std::string& id) {
  const auto found = networks_.find(id);
  if (found == networks_.end()) return;
  const bool open = found->second->open;
  networks_.erase(found);
  if (open) close_later(id);
}

void Networks::close_later(const std::string& id) {
  if (egress_.lost()) return;
  const wire::EgressRequest request{.verb = wire::EgressVerb::close, .id = id_of(id)};
  tasks_.spawn("close a network", [](Networks& self, wire::EgressRequest close) -> async::Task<> {
    [[maybe_unused]] const auto closed = co_await self.egress_.ask(close);
  }(*this, request));
}

async::Task<Result<>> Networks::set(std::shared_ptr<sandbox::Sandbox> sandbox, egress::Policy policy,
                                    wire::EgressScope scope, journal::Actor actor) {
  if (is_leaving(*sandbox)) co_return fail(Errc::not_found, "the sandbox is being deleted");
  const auto network = of(sandbox->row().id);
  co_await acquire(network);
  const auto before = network->policy;
  auto changed = co_await change(sandbox, network, policy, scope);
  if (changed) {
    changed = write_down(*sandbox, policy);
    if (changed && sandbox->state() == sandbox::State::running) changed = co_await furnish(sandbox);
    if (!changed) co_await go_back(sandbox, network, before);
  }
  network->busy = false;
  network->changed.notify_all();
  if (changed) {
    const auto shown = egress::to_json(policy, egress::Secrets::hidden);
    registry_.publish("network", *sandbox, json::serialize(json::object{{"mode", shown.at("mode")}}), actor);
  }
  co_return changed;
}

// After a failure behind the change itself.
async::Task<> Networks::go_back(std::shared_ptr<sandbox::Sandbox> sandbox, Held network, egress::Policy policy) {
  if (is_leaving(*sandbox)) co_return;
  auto back = co_await change(sandbox, network, policy, wire::EgressScope::all_connections);
  if (back) back = write_down(*sandbox, policy);
  if (back && sandbox->state() == sandbox::State::running) back = co_await furnish(sandbox);
  if (!back)
    warn_(fmt::format("network not restored sandbox={} reason=\"{}\"", sandbox->row().id, back.error().message));
}

async::Task<Result<>> Networks::change(std::shared_ptr<sandbox::Sandbox> sandbox, Held network, egress::Policy policy,
                                       wire::EgressScope scope) {
  if (!wants_ways(policy)) {
    if (network->open) COVE_CO_CHECK(co_await close_ways(sandbox, network));
    network->certificate.clear();
    network->policy = std::move(policy);
    co_return Result<>();
  }
  if (!network->open) co_return co_await open_ways(sandbox, network, std::move(policy));
  COVE_CO_TRY(auto memory, in_memory(text_of(policy)));
  auto ways = co_await order_ways(sandbox, policy, wire::NetworkSockets::none);
  if (!ways) co_return tl::unexpected<Error>(ways.error());
  const wire::EgressRequest request{.verb = wire::EgressVerb::change, .id = id_of(sandbox->row().id), .scope = scope};
  auto told = co_await egress_.ask(request, sys::descriptors(std::move(memory)));
  if (!told) {
    // The kernel's side goes back to the policy that holds.
    [[maybe_unused]] const auto back = co_await order_ways(sandbox, network->policy, wire::NetworkSockets::none);
    co_return tl::unexpected<Error>(told.error());
  }
  network->certificate = certificate_in(*told);
  network->policy = std::move(policy);
  co_return Result<>();
}

async::Task<Result<>> Networks::open_ways(std::shared_ptr<sandbox::Sandbox> sandbox, Held network,
                                          egress::Policy policy) {
  if (egress_.lost()) co_return fail(Errc::unavailable, "the egress process is being restarted: try again");
  COVE_CO_TRY(auto memory, in_memory(text_of(policy)));
  COVE_CO_TRY(auto sockets, co_await order_ways(sandbox, policy, wire::NetworkSockets::wanted));
  auto fds = sys::descriptors(std::move(memory), std::move(sockets.relay), std::move(sockets.relay6),
                              std::move(sockets.dns), std::move(sockets.dns_tcp));
  network->proxy = static_cast<bool>(sockets.proxy);
  if (sockets.proxy) fds.push_back(std::move(sockets.proxy));
  const wire::EgressRequest request{.verb = wire::EgressVerb::open, .id = id_of(sandbox->row().id)};
  auto told = co_await egress_.ask(request, std::move(fds));
  if (!told) {
    [[maybe_unused]] const auto closed = co_await order_no_ways(sandbox);
    co_return tl::unexpected<Error>(told.error());
  }
  if (const auto found = networks_.find(sandbox->row().id); found == networks_.end() || found->second != network) {
    // It was forgotten meanwhile, when nothing was open yet.
    close_later(sandbox->row().id);
    co_return fail(Errc::not_found, "the sandbox was deleted");
  }
  network->certificate = certificate_in(*told);
  network->policy = std::move(policy);
  network->open = true;
  co_return Result<>();
}

async::Task<Result<>> Networks::close_ways(std::shared_ptr<sandbox::Sandbox> sandbox, Held network) {
  COVE_CO_CHECK(co_await order_no_ways(sandbox));
  const wire::EgressRequest request{.verb = wire::EgressVerb::close, .id = id_of(sandbox->row().id)};
  // An egress process that is gone has closed it.
  if (auto told = co_await egress_.ask(request); !told && !egress_.lost())
    co_return tl::unexpected<Error>(told.error());
  network->open = false;
  co_return Result<>();
}

Result<> Networks::write_down(const sandbox::Sandbox& sandbox, const egress::Policy& policy) {
  if (sandbox.purpose() == sandbox::Purpose::throwaway) return {};
  const auto& id = sandbox.row().id;
  COVE_TRY(const auto sealed, registry_.store().secrets().seal(id, text_of(policy)));
  return registry_.store().sandboxes().set_network(id, sealed);
}

egress::Policy Networks::policy_of(const sandbox::Sandbox& sandbox) const {
  const auto found = networks_.find(sandbox.row().id);
  return found == networks_.end() ? egress::Policy() : found->second->policy;
}

std::string Networks::proxy_of(const sandbox::Sandbox& sandbox) const {
  const auto found = networks_.find(sandbox.row().id);
  const bool there = found != networks_.end() && found->second->open && found->second->proxy;
  return there ? fmt::format("http://127.0.0.1:{}", wire::kProxyPort) : std::string();
}

async::Task<Result<json::object>> Networks::inspect(std::shared_ptr<sandbox::Sandbox> sandbox) {
  const auto found = networks_.find(sandbox->row().id);
  if (found == networks_.end() || !found->second->open) co_return json::object();
  const wire::EgressRequest request{.verb = wire::EgressVerb::inspect, .id = id_of(sandbox->row().id)};
  COVE_CO_TRY(const auto text, co_await egress_.ask(request));
  boost::system::error_code failed;
  auto value = json::parse(text, failed);
  if (failed || !value.is_object()) co_return fail(Errc::io, "the egress process answered something else than JSON");
  co_return std::move(value.as_object());
}

void Networks::on_decided(const SandboxId& id, std::string_view record) {
  const auto found = networks_.find(std::string(id.view()));
  if (found == networks_.end()) return;
  boost::system::error_code failed;
  auto value = json::parse(record, failed);
  if (failed || !value.is_object()) return;
  auto& object = value.as_object();
  const auto number = [&object](std::string_view name) -> std::uint64_t {
    const auto* value = object.if_contains(name);
    return value != nullptr && value->is_number() ? value->to_number<std::uint64_t>() : 0;
  };
  counters_.lost += number("lost");
  counters_.bytes_in += number("bytes_in");
  counters_.bytes_out += number("bytes_out");
  const auto* event = object.if_contains("event");
  const auto* verdict = object.if_contains("verdict");
  if (event != nullptr && *event == "decided" && verdict != nullptr && verdict->is_string())
    ++(verdict->as_string() == "allowed" ? counters_.allowed : counters_.denied);
  auto& network = *found->second;
  network.log.push_back({.number = network.next_number++, .record = std::move(object)});
  while (network.log.size() > options_.log_size()) network.log.pop_front();
  network.changed.notify_all();
}

std::vector<LogRecord> Networks::log(const sandbox::Sandbox& sandbox, std::uint64_t after, std::size_t most) const {
  std::vector<LogRecord> records;
  const auto found = networks_.find(sandbox.row().id);
  if (found == networks_.end()) return records;
  for (const auto& one : found->second->log) {
    if (one.number > after && records.size() < most) records.push_back(one);
  }
  return records;
}

async::Task<> Networks::log_grown(const sandbox::Sandbox& sandbox, std::chrono::steady_clock::time_point until) {
  const auto network = of(sandbox.row().id);
  co_await network->changed.wait_until(until);
}

std::size_t Networks::open_networks() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(networks_, [](const auto& entry) { return entry.second->open; }));
}

}  // namespace cove::network
