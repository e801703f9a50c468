#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "jail/plan.hpp"
#include "keeper/devices.hpp"

namespace cove::keeper {

// What a sandbox's root is made of, as the host sees it.
struct RootSource {
  struct HostTree {
    std::string host_path;  // "/usr"
    std::string target;     // "usr"
  };
  std::string lower_path;
  UniqueFd lower_lock;  // shared flock: nobody sweeps this root away while it is held
  UniqueFd
      lower_mount;  // a detached copy of lower_path when we could make one before giving up privilege; else by path
  std::vector<HostTree> trees;
};

// Moves the calling process, alone in a new mount namespace, into a root of its own that holds what sandboxes are built
// from and nothing else of the host: the roots, /proc, the device nodes. From then on nobody in the keeper can open a
// host path, and a sandbox's mount namespace starts as a copy of this short table. Devices that could not be made
// before are made here. Returns the roots as paths inside the room.
Result<std::vector<jail::Root>> enter_room(std::vector<RootSource>& sources, Devices& devices);

}  // namespace cove::keeper
