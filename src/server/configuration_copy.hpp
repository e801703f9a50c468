#pragma once

#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::server {

// What the file says now, for a process that may not be allowed to read it. Empty without a file.
Result<UniqueFd> copy_configuration(const std::string& file);

}  // namespace cove::server
