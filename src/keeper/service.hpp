#pragma once

#include <cstdint>

#include "base/unique_fd.hpp"
#include "jail/plan.hpp"
#include "keeper/zygote_group.hpp"
#include "sys/cgroup.hpp"

namespace cove::keeper {

// Everything the keeper works with, gathered before it gave up the host.
struct ServiceOptions {
  UniqueFd front;     // SOCK_SEQPACKET; its end means: end every sandbox, then yourself
  bool keep = false;  // its end means: end yourself and leave the sandboxes to the next keeper
  UniqueFd lingers;   // with `keep`: a byte goes here when it stays after its front, for the sake of frozen sandboxes
  const sys::CgroupTree* tree = nullptr;
  jail::Root host;
  std::uint32_t device_sets = 1;
  std::uint32_t first_uid = 0;  // ids for sandboxes, in the keeper's user namespace
  ZygoteOptions zygotes;
  std::uint32_t uid_count = 1;  // 1: every sandbox has the same (rootless without a subordinate range)
};

// Serves until the front is gone. Single-threaded. Returns the exit status.
int serve(ServiceOptions options);

}  // namespace cove::keeper
