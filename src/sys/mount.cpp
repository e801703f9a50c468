#include "sys/mount.hpp"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace cove::sys {
namespace {

// Closes without losing the errno that is about to be reported.
int close_failed(int fd) noexcept {
  const int saved = errno;
  ::close(fd);
  errno = saved;
  return -1;
}

}  // namespace

int make_filesystem(const char* type, std::span<const MountOption> options, unsigned attributes) noexcept {
  const int context = ::fsopen(type, FSOPEN_CLOEXEC);
  if (context < 0) return -1;
  for (const auto& option : options) {
    const auto command = option.value == nullptr ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING;
    if (::fsconfig(context, command, option.key, option.value, 0) != 0) return close_failed(context);
  }
  if (::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return close_failed(context);
  const int mount_fd = ::fsmount(context, FSMOUNT_CLOEXEC, attributes);
  if (mount_fd < 0) return close_failed(context);
  ::close(context);
  return mount_fd;
}

int copy_tree(const char* path) noexcept {
  return ::open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

bool attach(int mount_fd, const char* target) noexcept {
  return ::move_mount(mount_fd, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

bool restrict_tree(int mount_fd, std::uint64_t attributes) noexcept {
  struct mount_attr attr{};
  attr.attr_set = attributes;
  return ::mount_setattr(mount_fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) == 0;
}

bool resize_filesystem(int mount_fd, const char* size) noexcept {
  const int context = ::fspick(mount_fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
  if (context < 0) return false;
  const bool done = ::fsconfig(context, FSCONFIG_SET_STRING, "size", size, 0) == 0 &&
                    ::fsconfig(context, FSCONFIG_CMD_RECONFIGURE, nullptr, nullptr, 0) == 0;
  close_failed(context);
  return done;
}

bool make_private() noexcept {
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool change_root(const char* new_root) noexcept {
  // With both names "." the old root lies on top of the new one and can be taken off at once (pivot_root(2)).
  return ::chdir(new_root) == 0 && ::syscall(SYS_pivot_root, ".", ".") == 0 && ::umount2(".", MNT_DETACH) == 0 &&
         ::chdir("/") == 0;
}

}  // namespace cove::sys
