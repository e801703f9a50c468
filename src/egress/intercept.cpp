#include "egress/intercept.hpp"

#include <algorithm>
#include <array>

#include "egress/byte_stream.hpp"
#include "egress/client_hello.hpp"
#include "egress/edge_ca.hpp"
#include "egress/expiry.hpp"
#include "egress/forward.hpp"
#include "egress/host_name.hpp"
#include "egress/sandbox_egress.hpp"
#include "egress/tls_stream.hpp"

namespace cove::egress {
namespace {

using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGreetingPatience{15};
constexpr std::chrono::seconds kHandshakePatience{20};

void refuse_again(SandboxEgress& egress, Flow& flow, std::string rule) {
  flow.recorded = false;
  egress.refuse(flow, {.verdict = Verdict::denied, .rule = std::move(rule)});
}

// Reads until it is clear what the client begins with. "": it is gone.
Task<std::string> greeting(std::shared_ptr<Flow> flow, std::string begun) {
  const Expiry expiry(flow->client.get_executor(), Clock::now() + kGreetingPatience,
                      [flow] { flow->cut("headers: no request in time"); });
  SocketStream client(flow->client);
  std::array<char, 4096> piece{};
  while (begun.empty() ||
         (read_client_hello(begun).state == ClientHello::State::more && begun.size() < kLongestClientHello)) {
    const auto size = co_await client.read_some(piece);
    if (size == 0) co_return std::string();
    begun.append(piece.data(), size);
  }
  co_return begun;
}

// Both sides in TLS. Nothing: the flow was cut.
Task<std::optional<Sides>> shake_hands_with_both(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow,
                                                 ClientHello hello, std::string begun) {
  const auto& name = flow->subject.name;
  const auto meant = hello.server_name ? canonical_ascii_name(*hello.server_name) : Result<std::string>(name);
  if (hello.state != ClientHello::State::complete || !meant || *meant != name) {
    refuse_again(*egress, *flow, fmt::format("sni: another name than {}", name));
    co_return std::nullopt;
  }
  const auto ca = egress->authority();
  auto own = ca ? ca->context_for(name) : Result<std::shared_ptr<boost::asio::ssl::context>>(fail(Errc::io, ""));
  auto trust = egress->common.trust();
  if (!own || !trust) {
    flow->cut("headers: no certificate");
    co_return std::nullopt;
  }
  const Expiry expiry(flow->client.get_executor(), Clock::now() + kHandshakePatience,
                      [flow] { flow->cut("headers: no handshake in time"); });
  auto server = co_await connect_tls(flow->upstream, *trust, name);
  if (!server) {
    flow->cut(server.error().message);
    co_return std::nullopt;
  }
  auto client = co_await accept_tls(flow->client, *own, std::move(begun));
  if (!client) {
    flow->cut(client.error().message);
    co_return std::nullopt;
  }
  co_return Sides{.client = std::move(*client), .server = std::move(*server)};
}

}  // namespace

bool adds_headers(const SandboxEgress& egress, const Flow& flow) {
  const auto& subject = flow.subject;
  if (subject.name.empty()) return false;
  return std::ranges::any_of(egress.policy()->headers,
                             [&](const HeaderRule& rule) { return rule.matches(subject.name, subject.port); });
}

Task<> intercept(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::string begun) {
  begun = co_await greeting(flow, std::move(begun));
  if (begun.empty() || flow->is_cut()) co_return;
  auto hello = read_client_hello(begun);
  const bool tls = hello.state != ClientHello::State::not_tls;
  Sides sides;
  if (tls) {
    auto both = co_await shake_hands_with_both(egress, flow, std::move(hello), std::exchange(begun, {}));
    if (!both) co_return;
    sides = std::move(*both);
  } else {
    sides = {.client = std::make_shared<SocketStream>(flow->client),
             .server = std::make_shared<SocketStream>(flow->upstream)};
  }
  auto read = co_await read_request_head(flow, sides.client, std::move(begun));
  if (flow->is_cut() || (read.head.empty() && read.refusal.status == 0)) co_return;
  auto refusal = read.refusal;
  if (!read.head.empty()) {
    auto parsed = parse_proxy_request(read.head, tls ? 443 : 80);
    const auto* request = std::get_if<ProxyRequest>(&parsed);
    const auto host = request != nullptr ? canonical_name(request->host) : Result<std::string>(fail(Errc::invalid, ""));
    if (request == nullptr) {
      refusal = std::get<ProxyRefusal>(parsed);
    } else if (request->form == ProxyRequest::Form::connect || !host || *host != flow->subject.name ||
               request->port != flow->subject.port) {
      // The header is for this host alone, whatever else its address serves.
      refusal = {.status = 421, .sentence = "Host is not the host that was connected to"};
    } else {
      co_await forward(egress, flow, std::move(sides), std::get<ProxyRequest>(std::move(parsed)), std::move(read.rest));
      co_return;
    }
  }
  auto text =
      own_answer(refusal.status, refusal.status == 421 ? "Misdirected Request" : "Bad Request", refusal.sentence);
  co_await last_words(flow, sides.client, std::move(text));
}

}  // namespace cove::egress
