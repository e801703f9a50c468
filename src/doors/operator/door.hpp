#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "http/routes.hpp"

namespace cove::doors::operators {

struct Services {
  std::function<bool()> healthy;
  std::function<std::string()> metrics;  // in the text format of Prometheus
  config::MetricsAccess metrics_access = config::MetricsAccess::key;
};

// `/`, the first page; `/healthz`, `/version`, `/openapi.json`, and `/metrics`, which the configuration may open to
// programs of this machine.
std::vector<http::RouteRow<Services>> routes(config::MetricsAccess metrics);
// Adds them to the router.
void add_routes(http::Router& router, Services& services);

}  // namespace cove::doors::operators
