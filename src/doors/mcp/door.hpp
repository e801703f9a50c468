#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "async/task.hpp"
#include "async/task_group.hpp"
#include "config/config.hpp"
#include "http/exchange.hpp"
#include "http/router.hpp"
#include "mcp/peer.hpp"

namespace cove::doors::mcp {

using async::Task;

class Endpoint;

// `/mcp`, and the line of a client that speaks over pipes (docs/mcp.md). Null: for the table alone, nothing may be
// called.
void add_routes(http::Router& router, Endpoint* endpoint);

// What a client is told that has no token, or one that is not enough (RFC 6750, RFC 9728); "" where there are only
// keys.
std::string token_challenge(const config::OAuth& oauth);

}  // namespace cove::doors::mcp
