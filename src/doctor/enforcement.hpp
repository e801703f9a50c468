#pragma once

#include "doctor/check.hpp"
#include "doctor/host.hpp"

namespace cove::doctor {

// Tries every lock of the default profile, as this user, and takes away again what it made. The caller is
// single-threaded.
Checks enforcement(const Host& host);

}  // namespace cove::doctor
