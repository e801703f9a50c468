#pragma once

#include <string>

#include "base/result.hpp"
#include "sys/cgroup.hpp"

namespace cove::doctor {

// What a control group of this user does to a process that goes too far. Each is an error that says why it does not.
struct LimitFindings {
  sys::CgroupMode mode = sys::CgroupMode::none;
  std::string shortcoming;  // why a controller is missing
  Result<> memory;
  Result<> pids;
  Result<> cpu;
  Result<> freeze;
  Result<> kill;
};

// Makes a tree and a leaf as the keeper does, runs a process in it against its limits, and removes both. Takes about
// 0.2 s, nearly all of it the time that the process is held back. Memory is counted but not run into: that would be an
// alarm in the host's log.
LimitFindings try_limits();

}  // namespace cove::doctor
