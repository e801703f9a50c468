#pragma once

#include <boost/json.hpp>

#include "http/exchange.hpp"
#include "mcp/message.hpp"

namespace cove::mcp_http {

using async::Task;

Task<> send(http::Exchange& exchange, http::Response response);
// With an error of JSON-RPC as the body.
Task<> refuse(http::Exchange& exchange, unsigned status, cove::mcp::Fault fault, boost::json::value id = nullptr);

// 202, with nothing to say.
http::Response taken();

// What a page of an allowed origin needs to read an answer. Other origins never come this far.
void allow_origin(const http::Request& request, http::NameValues& headers);

}  // namespace cove::mcp_http
