#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "async/task.hpp"
#include "config/config.hpp"
#include "doors/execute/meter.hpp"
#include "http/exchange.hpp"
#include "http/routes.hpp"
#include "sandbox/core.hpp"
#include "store/file_store.hpp"

namespace cove::doors::execute {

using async::Task;

// The limits of every sandbox of this door.
jail::Limits limits_of(const config::Config& config);

// The services that this door uses. Borrowed for the server's life.
struct Services : sandbox::Core {
  sandbox::Admission& slots;  // of this door alone
  store::FileStore& files;
  Meter& meter;
  std::function<void(std::string_view)> log;
  std::uint64_t files_omitted = 0;  // files of runs that were not kept
};

using Route = http::RouteRow<Services>;
using Routes = http::RouteRows<Services>;
using http::verb;

// The code interpreter's API: `/health`, `/ready`, `/v1/execute…`, `/v1/files…`, `/v1/sessions…` (docs/api.md).
std::vector<Route> routes();
// Adds them to the router, with this API's error format.
void add_routes(http::Router& router, Services& services);

// Removes expired files, until cancelled.
Task<> expire_files(Services& services);

// Defined in the other files of this door.
Routes health_routes();
Routes execute_routes();
Routes file_routes();
Routes session_routes();

}  // namespace cove::doors::execute
