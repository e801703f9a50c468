#pragma once

#include <cstddef>
#include <vector>

#include "config/config.hpp"

namespace cove::server {

// No more than these can be kept.
inline constexpr std::size_t kMaxKept = 90;
static_assert(config::kMaxListeners + 10 < kMaxKept);

// For a process that was just cloned: these descriptors become 3, 4, 5…, and every other one above is closed. One that
// is -1 leaves its number free. False: the process cannot go on.
bool keep_only(const std::vector<int>& descriptors);

}  // namespace cove::server
