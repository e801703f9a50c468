#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "http/exchange.hpp"
#include "http/routes.hpp"
#include "outbound/client.hpp"
#include "sandbox/core.hpp"

namespace cove::doors::workspace {

using async::Task;

// The limits of every sandbox for handlers.
jail::Limits handler_limits(const config::Config& config);

// What sandboxes of this door reach: everything public where workspace.network says so; "": the server's default.
std::string network_of(const config::Config& config);

// The services that this door uses. Borrowed for the server's life.
struct Services : sandbox::Core {
  outbound::Client& outbound;
};

using Route = http::RouteRow<Services>;
using Routes = http::RouteRows<Services>;
using http::verb;

// `/workspace/se…` (docs/api.md).
std::vector<Route> routes();
// Adds them to the router, with this API's error format.
void add_routes(http::Router& router, Services& services);

// Defined in the other files of this door.
Routes session_routes();
Routes file_routes();
Routes execute_routes();
Routes handler_routes();
Routes efast_routes();

}  // namespace cove::doors::workspace
