#include "mcp/http/refusal.hpp"

#include "mcp/revision.hpp"

namespace cove::mcp_http {

Task<> send(http::Exchange& exchange, http::Response response) {
  allow_origin(exchange.request(), response.headers);
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

Task<> refuse(http::Exchange& exchange, unsigned status, cove::mcp::Fault fault, boost::json::value id) {
  const auto revision = cove::mcp::find_revision(exchange.request().header("MCP-Protocol-Version"));
  const bool omits = revision && cove::mcp::omits_unknown_ids(*revision);
  const auto unknown = omits ? cove::mcp::UnknownId::omitted : cove::mcp::UnknownId::null;
  auto message = cove::mcp::error_message(id, fault, unknown);
  co_await send(exchange, http::json_response(status, message));
}

http::Response taken() {
  return {.status = 202, .content_type = ""};
}

void allow_origin(const http::Request& request, http::NameValues& headers) {
  const auto origin = request.header("Origin");
  if (origin.empty()) return;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  headers.emplace_back("Access-Control-Expose-Headers", "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate");
  headers.emplace_back("Vary", "Origin");
}

}  // namespace cove::mcp_http
