#pragma once

#include <cstdint>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::host {

// What becomes /dev in sandboxes: a small filesystem with directories 0, 1, …, each with the five nodes, the usual
// links and places to mount on. Detached; the keeper mounts it in its own root.
struct Devices {
  UniqueFd mount;
  std::uint32_t sets = 1;
  bool nodes_inside = false;  // false: the host's own nodes must be mounted on the empty files of set 0
};

inline constexpr const char* kDeviceNodes[] = {"null", "zero", "full", "random", "urandom"};

// `sets` sets of nodes of their own where we may make nodes (root on the host): sandboxes then share no inode, so no
// lock, watch or time stamp on /dev/null passes between them. Otherwise one set of empty files.
Result<Devices> make_devices(std::uint32_t sets);

}  // namespace cove::host
