#pragma once

#include <boost/json.hpp>

#include "http/exchange.hpp"
#include "mcp/message.hpp"

namespace cove::mcp_http {

using async::Task;

Task<> send(http::Exchange& exchange, http::Response response);
// With a JSON-RPC error as the body.
Task<> refuse(http::Exchange& exchange, unsigned status, cove::mcp::Fault fault, boost::json::value id = nullptr);

// 202 without a body.
http::Response taken();

}  // namespace cove::mcp_http
