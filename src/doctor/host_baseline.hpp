#pragma once

#include "doctor/check.hpp"
#include "doctor/host.hpp"

namespace cove::doctor {

// What stands behind the locks (docs/attacks.md R-26): reads only, changes nothing.
Checks host_baseline(const Host& host);

}  // namespace cove::doctor
