#pragma once

#include <optional>
#include <vector>

#include "doors/jupyter/directory.hpp"
#include "doors/jupyter/notebooks.hpp"
#include "doors/jupyter/reservations.hpp"
#include "http/exchange.hpp"
#include "http/routes.hpp"

namespace cove::doors::jupyter {

// The services that this door uses. Borrowed for the server's life.
struct Services : sandbox::Core {
  explicit Services(const sandbox::Core& core) : sandbox::Core(core), directory(*this), notebooks(registry.store()) {}
  Services(const Services&) = delete;
  Services& operator=(const Services&) = delete;

  Directory directory;
  Notebooks notebooks;
  Reservations reservations;
  std::chrono::system_clock::time_point started = std::chrono::system_clock::now();
};

using Route = http::RouteRow<Services>;
using Routes = http::RouteRows<Services>;
using http::verb;

// Jupyter's REST API and WebSockets: `/api…`, and the same for one sandbox below `/v1/sandboxes/{id}/jupyter`
// (docs/jupyter.md).
std::vector<Route> routes();
// Adds them to the router, with this API's error format.
void add_routes(http::Router& router, Services& services);

// Defined in the other files of this door. Their paths begin with `/api`.
Routes kernel_routes();
Routes spec_routes();
Routes session_routes();
Routes channel_routes();

}  // namespace cove::doors::jupyter
