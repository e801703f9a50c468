#pragma once

#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::server {

// Makes the state directory and every directory above it that is missing.
Result<> make_state_directory(const std::string& path);
// Locks the file `name` in the state directory until the descriptor is closed. While a previous server still holds it,
// waits a few seconds for it. The supervisor and the front lock a file each, so neither can release the other's lock.
Result<UniqueFd> lock_state(const std::string& state_dir, const char* name);

}  // namespace cove::server
