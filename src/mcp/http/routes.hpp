#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "async/task.hpp"
#include "async/task_group.hpp"
#include "config/config.hpp"
#include "http/exchange.hpp"
#include "http/routes.hpp"
#include "mcp/peer.hpp"

namespace cove::mcp_http {

using async::Task;

class Endpoint;

// `/mcp`, `/mcp/line` for `cove mcp`, and HTTP+SSE (docs/mcp.md).
std::vector<http::RouteRow<Endpoint>> routes();
// Adds them to the router.
void add_routes(http::Router& router, Endpoint& endpoint);

// The WWW-Authenticate challenge for a missing or insufficient token (RFC 6750, RFC 9728); "" if OAuth is off.
std::string token_challenge(const config::OAuth& oauth);

}  // namespace cove::mcp_http
