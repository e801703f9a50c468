#pragma once

#include <vector>

#include "http/routes.hpp"

namespace cove::server {

// Every address the server answers.
std::vector<http::RouteInfo> route_table();

}  // namespace cove::server
