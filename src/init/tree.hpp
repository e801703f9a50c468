#pragma once

#include <sys/types.h>

namespace cove::init {

// SIGKILL to everything below `root`, which itself is only told to go on. How many were found alive: what forks faster
// than it is found needs another call.
int kill_below(pid_t root);

}  // namespace cove::init
