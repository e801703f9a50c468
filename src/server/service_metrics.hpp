#pragma once

#include "server/services.hpp"

namespace cove::server {

// Every gauge and total of /metrics that is read off the services when somebody asks.
void describe_metrics(Services& services);
// Those of the pool, once it is open.
void watch_pool(Services& services);

}  // namespace cove::server
