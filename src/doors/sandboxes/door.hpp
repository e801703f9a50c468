#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/config.hpp"
#include "http/exchange.hpp"
#include "http/routes.hpp"
#include "jobs/jobs.hpp"
#include "listeners/listeners.hpp"
#include "network/networks.hpp"
#include "packages/installs.hpp"
#include "sandbox/core.hpp"
#include "tools/broker.hpp"

namespace cove::doors::sandboxes {

using async::Task;

// A creation with an Idempotency-Key that is in progress.
struct KeyedCreation {
  KeyedCreation(boost::asio::any_io_executor executor, std::string of_body)
      : hash(std::move(of_body)), over(std::move(executor)) {}
  std::string hash;    // of the body
  async::Signal over;  // answered, or failed
};

// The services that this door uses. Borrowed for the server's life.
struct Services : sandbox::Core {
  jobs::Jobs& jobs;
  jobs::Callbacks& callbacks;
  packages::Installs& installs;
  listeners::Listeners& listeners;
  network::Networks& networks;
  tools::Broker& tools;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<KeyedCreation>> creating = {};  // by tenant and key
};

using Route = http::RouteRow<Services>;
using Routes = http::RouteRows<Services>;
using http::verb;

// `/v1/sandboxes…`, `/v1/events` and `/v1/listeners`: the NoxRunner v1 API and ours around it (docs/api.md).
std::vector<Route> routes();
// Adds them to the router.
void add_routes(http::Router& router, Services& services);

// Defined in the other files of this door.
Routes lifecycle_routes();
Routes update_routes();
Routes template_routes();
Routes exec_routes();
Routes process_routes();
Routes port_routes();
Routes network_routes();
Routes tool_routes();
Routes listener_routes();
Routes kernel_routes();
Routes kernel_execution_routes();
Routes kernel_question_routes();
Routes execution_routes();
Routes dependency_routes();
Routes file_routes();
Routes event_routes();
Routes activity_routes();

}  // namespace cove::doors::sandboxes
