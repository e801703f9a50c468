#include "jail/root.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "sys/mount.hpp"

namespace cove::jail {
namespace {

// Attaches and forgets a detached mount; -1 from the maker passes through as false.
bool place(int mount_fd, const char* target) noexcept {
  if (mount_fd < 0) return false;
  const bool attached = sys::attach(mount_fd, target);
  const int saved = errno;
  ::close(mount_fd);
  errno = saved;
  return attached;
}

}  // namespace

// One tmpfs holds everything the sandbox writes: one size, one inode count, gone with the last mount.
bool make_storage(const Plan& plan) noexcept {
  const sys::MountOption options[] = {{"size", plan.disk_size}, {"nr_inodes", plan.disk_inodes}, {"mode", "0755"}};
  if (!place(sys::make_filesystem("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV), kStage) ||
      ::chdir(kStage) != 0)
    return false;
  // Its own places, and those that programs written for other sandboxes and for containers expect
  // (docs/decisions/0020).
  for (const char* directory : {"upper", "work", "root", "shm", "upper/workspace", "upper/home", "upper/home/cove",
                                "upper/var", "upper/mnt", "upper/mnt/data", "upper/data", "upper/app"}) {
    if (::mkdir(directory, 0755) != 0) return false;
  }
  for (const char* directory : {"upper/tmp", "upper/var/tmp"}) {
    if (::mkdir(directory, 01777) != 0 || ::chmod(directory, 01777) != 0) return false;
  }
  return ::chmod("shm", 01777) == 0;
}

bool make_root(const Plan& plan) noexcept {
  const sys::MountOption options[] = {{"userxattr", nullptr},
                                      {"lowerdir", plan.root.lower},
                                      {"upperdir", "upper"},
                                      {"workdir", "work"},
                                      {"xino", "off"}};
  return place(sys::make_filesystem("overlay", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV), "root") &&
         ::chdir("root") == 0;
}

// An overlay even where nothing is written: two sandboxes never share an inode, so neither locks nor inotify pass
// between them (docs/attacks.md XT-06). Without an upper layer it wants two lower ones; the first is what statfs(2)
// tells of, so it is not the host's disk.
bool make_trees(const Plan& plan) noexcept {
  for (std::size_t i = 0; i < plan.root.tree_count; ++i) {
    const auto& tree = plan.root.trees[i];
    char lower[64] = {};
    std::strncat(lower, kEmpty, sizeof lower - 1);
    std::strncat(lower, ":", sizeof lower - std::strlen(lower) - 1);
    std::strncat(lower, tree.source, sizeof lower - std::strlen(lower) - 1);
    const sys::MountOption options[] = {{"userxattr", nullptr}, {"lowerdir", lower}, {"xino", "off"}};
    const unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY;
    if (!place(sys::make_filesystem("overlay", options, attributes), tree.target)) return false;
  }
  return true;
}

bool make_proc() noexcept {
  const sys::MountOption options[] = {{"subset", "pid"}};
  return place(sys::make_filesystem("proc", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC), "proc");
}

// The room has a /dev as a sandbox sees it, read-only, with the five nodes. One copy takes all.
bool make_devices(const Plan& plan) noexcept {
  if (!place(sys::copy_tree(plan.devices), "dev")) return false;
  const int shm = ::open_tree(AT_FDCWD, "../shm", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  return shm >= 0 && sys::restrict_tree(shm, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC) &&
         place(shm, "dev/shm");
}

bool make_terminals() noexcept {
  const sys::MountOption options[] = {{"ptmxmode", "0666"}, {"mode", "0600"}, {"max", "16"}};
  return place(sys::make_filesystem("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), "dev/pts") &&
         place(sys::copy_tree(kTty), "dev/tty");
}

}  // namespace cove::jail
