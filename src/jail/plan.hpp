#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>

#include "base/result.hpp"
#include "jail/locks.hpp"
#include "sys/cgroup.hpp"

namespace cove::jail {

inline constexpr int kControlFd = 3;
// Where every root has cove-init.
inline constexpr const char* kInitPath = "/cove/init";

// Where things are in the keeper's own mount namespace, its "room" (keeper/room.hpp). Sandboxes see these strings in
// /proc/self/mountinfo, so they say nothing about the host.
inline constexpr const char* kStage = "/stage";  // an empty directory, the mount point of the sandbox's own storage
inline constexpr const char* kEmpty = "/empty";
inline constexpr const char* kDevices = "/devices";  // its directories 0, 1, … each become a sandbox's /dev
inline constexpr const char* kTemplates = "/t";      // its directories are the roots that were built, by number
inline constexpr const char* kTty = "/tty";          // becomes /dev/tty where there are terminals
inline constexpr std::size_t kMaxTrees = 8;

// A part of the host that a root shows besides its own directory: /usr, say. Read-only.
struct Tree {
  char source[24] = {};  // below the keeper's own root
  char target[24] = {};  // in the sandbox, without the leading slash
};

struct Root {
  char lower[24] = {};  // below the keeper's own root
  std::array<Tree, kMaxTrees> trees{};
  std::size_t tree_count = 0;
};

// What a sandbox may use. Every number is enforced or the create fails.
struct Limits {
  std::uint64_t memory_bytes = 1ULL << 30;
  std::uint64_t disk_bytes = 512ULL << 20;
  std::uint64_t inodes = 65536;
  std::uint32_t pids = 256;
  std::uint32_t cpu_millis = 1000;
};

// How memory and process counts are held to their limit: by the control group, or, where there is none, as well as
// rlimits can.
enum class LimitBackstop : std::uint8_t { cgroup, rlimit };

// Everything the far side of the fork needs, computed before it: no allocation, no formatting there.
struct Plan {
  Root root;
  uid_t uid = 0;  // in the keeper's user namespace
  gid_t gid = 0;
  char uid_map[48] = {};
  char gid_map[48] = {};
  char disk_size[24] = {};
  char disk_inodes[24] = {};
  Locks locks;
  char devices[32] = {};                          // below the keeper's own root
  int control_fd = -1;                            // becomes kControlFd
  int cgroup_fd = -1;                             // v2
  std::array<int, sys::kCgroupSlots> join_fds{};  // v1 `tasks`
  std::size_t join_count = 0;
};

// How far a sandbox's limits may be raised while it lives. A hard rlimit cannot be raised again, so that of init, and
// of init alone, stands here; its soft ones, which everything it starts has as hard ones, are the limits.
struct Raisable {
  std::uint64_t disk_bytes = 0;
  std::uint32_t pids = 0;
};

// How far the rlimit on processes stands above a limit that a control group counts.
inline constexpr std::uint32_t kProcessSlack = 16;
// How much larger than the disk a file may be, so that one that grows meets the full disk first (ENOSPC) and not
// SIGXFSZ.
inline constexpr std::uint64_t kFileSlack = 64U << 10;

struct PlanInput {
  const Root& root;
  Limits limits;
  Raisable raisable;
  uid_t uid;
  gid_t gid;
  TerminalSupport terminal;
  sys::SignalScope signals;
  std::uint32_t device_set;
  cpu_set_t cores;
  LimitBackstop backstop;
  int nice;
  int landlock_abi;
  int control_fd;
};
// For who enters a sandbox that exists: every limit is a hard one.
Locks make_locks(const PlanInput& input);
Plan make_plan(const PlanInput& input, const sys::Cgroup* cgroup);

}  // namespace cove::jail
