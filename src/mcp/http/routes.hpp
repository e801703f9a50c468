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

// `/mcp`, and the line of a client that speaks over pipes (docs/mcp.md).
std::vector<http::RouteRow<Endpoint>> routes();
// Adds them to the router.
void add_routes(http::Router& router, Endpoint& endpoint);

// What a client is told that has no token, or one that is not enough (RFC 6750, RFC 9728); "" where there are only
// keys.
std::string token_challenge(const config::OAuth& oauth);

}  // namespace cove::mcp_http
