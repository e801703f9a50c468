#include "doors/mcp/refusal.hpp"

namespace cove::doors::mcp {

Task<> send(http::Exchange& exchange, http::Response response) {
  allow_origin(exchange.request(), response.headers);
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

Task<> refuse(http::Exchange& exchange, unsigned status, cove::mcp::Fault fault, boost::json::value id) {
  auto message = cove::mcp::error_message(id, fault, cove::mcp::UnknownId::null);
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

}  // namespace cove::doors::mcp
