#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace cove::sys {

// The mount API of Linux 5.2, for code between fork and exec: no allocation, no locks; false or -1 with errno set.

struct MountOption {
  const char* key;
  const char* value;  // nullptr for a flag
};

// A new, detached filesystem of `type`. `attributes` are MOUNT_ATTR_*.
int make_filesystem(const char* type, std::span<const MountOption> options, unsigned attributes) noexcept;
// A detached copy of the mount at `path`, with everything mounted below it.
int copy_tree(const char* path) noexcept;
bool attach(int mount_fd, const char* target) noexcept;
// Adds MOUNT_ATTR_* to a detached or attached mount and all below it.
bool restrict_tree(int mount_fd, std::uint64_t attributes) noexcept;
// Gives the filesystem of this mount another size, as tmpfs takes it. It is in effect for everybody who has it mounted;
// EINVAL when more than that is in use.
bool resize_filesystem(int mount_fd, const char* size) noexcept;
// The process's view of the tree no longer takes part in anyone else's.
bool make_private() noexcept;
// `new_root` becomes "/", the old one is gone. The working directory is the new root.
bool change_root(const char* new_root) noexcept;

}  // namespace cove::sys
