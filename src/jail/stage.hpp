#pragma once

#include <cstdint>
#include <string_view>

namespace cove::jail {

// The steps on the far side of a fork, in order. A failure is reported as one of these and an errno.
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
  namespaces,
  fork,
  interpreter,
};
std::string_view words_for(Stage stage);

struct Report {
  Stage stage = Stage::none;
  std::int32_t sys_errno = 0;
};

}  // namespace cove::jail
