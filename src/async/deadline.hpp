#pragma once

#include <chrono>

#include "async/task.hpp"

namespace cove::async {

// Both end early, by system_error(operation_aborted), only when the task is cancelled.
Task<> sleep_until(std::chrono::steady_clock::time_point until);
Task<> sleep_for(std::chrono::steady_clock::duration duration);

}  // namespace cove::async
