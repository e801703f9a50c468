#pragma once

#include <vector>

#include "async/task.hpp"
#include "http/exchange.hpp"
#include "http/routes.hpp"
#include "sandbox/core.hpp"
#include "tools/broker.hpp"

namespace cove::doors::resources {

using async::Task;

// The services that this door uses. Borrowed for the server's life.
struct Services : sandbox::Core {
  tools::Broker& tools;
};

using Route = http::RouteRow<Services>;
using Routes = http::RouteRows<Services>;
using http::verb;

// `/status`, `/files…`, `/directories…`, `/modules` of the request's scope, and the same below
// `/v1/sandboxes/{id}/resources` (docs/api/resources.md).
std::vector<Route> routes();
// Adds them to the router, with this API's error format.
void add_routes(http::Router& router, Services& services);

// Defined in the other files of this door.
Routes file_routes();
Routes directory_routes();
Routes module_routes();
Routes mcp_routes();
Routes tool_server_routes();

}  // namespace cove::doors::resources
