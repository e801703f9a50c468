#include "egress/proxy.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "egress/byte_stream.hpp"
#include "egress/carry.hpp"
#include "egress/destination.hpp"
#include "egress/dial.hpp"
#include "egress/expiry.hpp"
#include "egress/forward.hpp"
#include "egress/intercept.hpp"
#include "egress/relay.hpp"
#include "egress/sandbox_egress.hpp"
#include "egress/socks.hpp"

namespace cove::egress {
namespace {

using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kProxyDialPatience{20};
constexpr std::chrono::seconds kFirstBytePatience{15};
constexpr std::string_view kDenied = "Network is unreachable (network policy)";

Task<> answer_itself(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow,
                     std::shared_ptr<ByteStream> client, std::string path) {
  flow->decision = {.verdict = Verdict::allowed, .rule = "the proxy itself"};
  auto text = path == "/" ? own_answer(200, "OK", egress->describe())
                          : own_answer(404, "Not Found", "this is a proxy; / tells the network policy of the sandbox");
  co_await last_words(flow, client, std::move(text));
}

Task<> refuse_request(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow,
                      std::shared_ptr<ByteStream> client, ProxyRefusal refusal) {
  flow->decision = {.verdict = Verdict::denied, .rule = "malformed proxy request"};
  egress->record(*flow);
  auto text = own_answer(refusal.status, refusal.status == 431 ? "Request Header Fields Too Large" : "Bad Request",
                         refusal.sentence);
  co_await last_words(flow, client, std::move(text));
}

// Who is refused, or leads nowhere, is told why in one sentence.
Task<> tell_failure(std::shared_ptr<Flow> flow, std::shared_ptr<ByteStream> client, Error error) {
  const bool denied = error.code == Errc::denied;
  const bool late = error.sys_errno == ETIMEDOUT;
  auto text = own_answer(denied ? 403
                         : late ? 504
                                : 502,
                         denied ? kDenied
                         : late ? "Gateway Timeout"
                                : "Bad Gateway",
                         error.message);
  co_await last_words(flow, client, std::move(text));
}

Task<> serve_http(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::string begun) {
  const std::shared_ptr<ByteStream> client = std::make_shared<SocketStream>(flow->client);
  auto read = co_await read_request_head(flow, client, std::move(begun));
  if (flow->is_cut() || (read.head.empty() && read.refusal.status == 0)) co_return;
  if (read.head.empty()) {
    co_await refuse_request(egress, flow, client, std::move(read.refusal));
    co_return;
  }
  auto parsed = parse_proxy_request(read.head);
  if (auto* refused = std::get_if<ProxyRefusal>(&parsed)) {
    co_await refuse_request(egress, flow, client, std::move(*refused));
    co_return;
  }
  auto& request = std::get<ProxyRequest>(parsed);
  if (request.form == ProxyRequest::Form::origin) {
    co_await answer_itself(egress, flow, client, std::move(request.path));
    co_return;
  }
  const bool tunnel = request.form == ProxyRequest::Form::connect;
  if (!tunnel) flow->subject.kind = AuditKind::http;
  if (!set_destination(*egress, *flow, request.host, request.port)) {
    egress->record(*flow);
    auto text = own_answer(403, kDenied, denied_sentence(*flow, *egress->policy()));
    co_await last_words(flow, client, std::move(text));
    co_return;
  }
  const auto dialled = co_await dial(egress, flow, Clock::now() + kProxyDialPatience);
  if (flow->is_cut()) co_return;
  if (!dialled) {
    co_await tell_failure(flow, client, dialled.error());
    co_return;
  }
  if (tunnel) {
    if (!co_await client->write("HTTP/1.1 200 Connection established\r\n\r\n"))
      co_return flow->cut("the connection was reset");
    if (adds_headers(*egress, *flow))
      co_await intercept(egress, flow, std::move(read.rest));
    else
      co_await carry(egress, flow, std::move(read.rest));
    co_return;
  }
  Sides sides{.client = client, .server = std::make_shared<SocketStream>(flow->upstream)};
  co_await forward(egress, flow, std::move(sides), std::move(request), std::move(read.rest));
}

// The first byte tells the two protocols apart.
Task<> serve_client(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow) {
  std::string begun(4096, '\0');
  {
    const Expiry expiry(flow->client.get_executor(), Clock::now() + kFirstBytePatience,
                        [flow] { flow->cut("proxy: no request in time"); });
    SocketStream client(flow->client);
    const auto size = co_await client.read_some(begun);
    if (size == 0) co_return;
    begun.resize(size);
  }
  if (begun.front() == 5)
    co_await serve_socks(egress, flow, std::move(begun));
  else
    co_await serve_http(egress, flow, std::move(begun));
}

}  // namespace

Task<> serve_proxy(std::shared_ptr<SandboxEgress> egress, boost::asio::ip::tcp::acceptor& acceptor) {
  co_await accept_all(std::move(egress), acceptor, AuditKind::proxy, serve_client);
}

}  // namespace cove::egress
