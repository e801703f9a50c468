#pragma once

#include "config/languages.hpp"
#include "doctor/check.hpp"
#include "doctor/host.hpp"

namespace cove::doctor {

// What sandboxes of this host start from: the template's root and the languages found in it.
Checks contents(const Host& host, const config::Languages& languages);

}  // namespace cove::doctor
