#pragma once

#include <boost/json.hpp>

#include "base/principal.hpp"
#include "doors/sandboxes/door.hpp"
#include "egress/policy.hpp"

namespace cove::doors::sandboxes {

// The policy that a request asks for, if its principal may have it. Errc::invalid names the field; Errc::denied a
// private target that only an operator may allow.
Result<egress::Policy> requested_policy(Services& services, const Principal& principal, boost::json::value requested);

}  // namespace cove::doors::sandboxes
