#pragma once

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::server {

// What the supervisor is as a process: before its sandboxes in priority, the parent of those that lose theirs, and told
// of signals by the descriptor that is returned.
Result<UniqueFd> prepare_process();

}  // namespace cove::server
