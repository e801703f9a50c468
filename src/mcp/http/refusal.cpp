#include "mcp/http/refusal.hpp"

#include "mcp/revision.hpp"

namespace cove::mcp_http {

Task<> send(http::Exchange& exchange, http::Response response) {
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

}  // namespace cove::mcp_http
