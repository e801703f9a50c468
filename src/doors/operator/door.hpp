#pragma once

#include <functional>
#include <string>

#include "config/config.hpp"
#include "http/router.hpp"

namespace cove::doors::operators {

struct Services {
  std::function<bool()> healthy;
  std::function<std::string()> metrics;  // in the text format of Prometheus
  config::MetricsAccess metrics_access = config::MetricsAccess::key;
};

// `/healthz`, `/version`, `/metrics`, `/openapi.json`. Null: for the table alone, nothing may be called.
void add_routes(http::Router& router, Services* services);

}  // namespace cove::doors::operators
