#pragma once

#include "doctor/check.hpp"
#include "doctor/host.hpp"

namespace cove::doctor {

// The kernel's switches: those that close what a sandbox has no use for, and those without which there is none.
Checks check_sysctls(const Host& host);

}  // namespace cove::doctor
