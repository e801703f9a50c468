#pragma once

#include <chrono>

namespace cove::sandbox {

// How often a task that waits for a notification looks again without one: for a deadline, or a client that left.
inline constexpr std::chrono::milliseconds kPollInterval{250};

}  // namespace cove::sandbox
