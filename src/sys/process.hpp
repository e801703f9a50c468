#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/unique_fd.hpp"

namespace cove::sys {

struct CloneOptions {
  std::uint64_t namespaces = 0;  // CLONE_NEW*
  int cgroup_fd = -1;            // v2 directory to be born in
};

struct Clone {
  pid_t pid = -1;  // 0 in the child, -1 on failure with errno set
  UniqueFd pidfd;
};

// fork(2) by clone3(2): into namespaces and a control group at birth, with a pidfd.
Clone clone_process(const CloneOptions& options) noexcept;

// SIGKILL by pidfd; false when it is already gone.
bool kill_process(int pidfd) noexcept;

// Lets this process have as many descriptors as the host allows. A shell gives few, for the sake of programs that use
// select(2).
void raise_descriptor_limit() noexcept;

}  // namespace cove::sys
