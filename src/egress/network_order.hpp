#pragma once

#include "base/result.hpp"
#include "egress/policy.hpp"
#include "wire/network_records.hpp"

namespace cove::egress {

// What the keeper is told about the network of a sandbox with this policy. Errc::over_limit when it has more targets
// than an order holds.
Result<wire::NetworkOrder> network_order(const Policy& policy, wire::NetworkSockets sockets);

}  // namespace cove::egress
