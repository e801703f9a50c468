#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "jail/plan.hpp"

namespace cove::jail {

// The steps on the far side of the fork, in order. A failure is reported as one of these and an errno.
enum class Stage : std::uint32_t {
  none,
  join_cgroup,
  cgroup_namespace,
  map_ids,
  take_ids,
  storage,
  root,
  trees,
  proc,
  devices,
  terminal,
  loopback,
  hostname,
  seal_counters,
  change_root,
  descriptors,
  rlimits,
  capabilities,
  landlock,
  seccomp,
  init,
};
std::string_view words_for(Stage stage);

struct Report {
  Stage stage = Stage::none;
  std::int32_t sys_errno = 0;
};

struct Jailed {
  pid_t pid = -1;
  UniqueFd pidfd;
  // End of file here means that every lock is on and init runs; a Report means that it never will.
  UniqueFd report;
};

// Makes the namespaces and starts the walk to cove-init in them. Returns at once; `Jailed::report` tells how it went.
// The caller is single-threaded and lives in the keeper's room. Everything in `plan` is borrowed until then.
Result<Jailed> start(const Plan& plan);

}  // namespace cove::jail
