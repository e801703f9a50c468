#include <fmt/format.h>

#include <algorithm>

#include "base/random_name.hpp"
#include "mcp/http/endpoint.hpp"
#include "mcp/http/headers.hpp"
#include "mcp/http/refusal.hpp"

namespace cove::mcp_http {
namespace {

using cove::mcp::Code;

constexpr std::size_t kMaxListeners = 256;  // of one tenant

cove::mcp::Fault switched_off() {
  return {Code::no_session, "HTTP with events is switched off here: use /mcp, or start the server with --mcp-sse"};
}

}  // namespace

Task<> Endpoint::events(http::Exchange& exchange) {
  if (!services_.core.config()->mcp.sse) co_return co_await refuse(exchange, 404, switched_off());
  if (!accepts(exchange.request()).events)
    co_return co_await refuse(exchange, 406, {Code::no_session, "Not acceptable: Accept must list text/event-stream"});
  const auto& principal = exchange.request().principal;
  const auto mine = std::ranges::count_if(
      listeners_, [&](const auto& entry) { return entry.second.peer->tenant() == principal.tenant; });
  if (static_cast<std::size_t>(mine) >= kMaxListeners)
    co_return co_await refuse(exchange, 503, {Code::internal, "Too many sessions: end one, or try again later"});
  const auto name = random_name("");
  const Listener listener{.peer = new_peer(exchange.request(), {}),
                          .stream = std::make_shared<Stream>(executor_, name)};
  listener.peer->speak_on(std::make_shared<OpenOutlet>(listener.stream));
  listeners_.emplace(name, listener);
  Following way;
  way.first = fmt::format("event: endpoint\ndata: /message?sessionId={}\n\n", name);
  co_await follow(exchange, listener.stream, std::move(way));
  // With its stream the client is gone.
  listener.peer->cancel_all();
  listeners_.erase(name);
}

Task<> Endpoint::message(http::Exchange& exchange) {
  if (!services_.core.config()->mcp.sse) co_return co_await refuse(exchange, 404, switched_off());
  const auto& request = exchange.request();
  const auto found = listeners_.find(std::string(request.query("sessionId").value_or("")));
  if (found == listeners_.end() || found->second.peer->tenant() != request.principal.tenant ||
      found->second.peer->key_id() != request.principal.key_id)
    co_return co_await refuse(exchange, 404, {Code::session_not_found, "Session not found: open /sse again"});
  const auto listener = found->second;
  const auto posted = co_await read(exchange);
  if (!posted) co_return;
  listener.peer->take(posted->value, std::make_shared<OpenOutlet>(listener.stream));
  http::Response accepted{.status = 202, .content_type = "text/plain", .body = "Accepted"};
  co_await send(exchange, std::move(accepted));
}

}  // namespace cove::mcp_http
