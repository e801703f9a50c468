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

}  // namespace cove::doors::mcp
