#include "files/location.hpp"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "base/text.hpp"
#include "files/names.hpp"

namespace cove::files {
namespace {

int open_resolved(int dir_fd, const char* path, int flags, unsigned mode, std::uint64_t resolve) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
  how.mode = mode;
  how.resolve = resolve;
  while (true) {
    const auto fd = ::syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
    // EAGAIN: something was renamed while the kernel looked, so it cannot tell; it asks to be asked again.
    if (fd >= 0 || (errno != EINTR && errno != EAGAIN)) return static_cast<int>(fd);
  }
}

std::string boundary;  // empty: none

// Where an open file or directory is by now.
std::string place_of(int fd) {
  std::array<char, PATH_MAX> path;
  const auto n = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size());
  return n > 0 ? std::string(path.data(), static_cast<std::size_t>(n)) : std::string();
}

bool is_below(std::string_view path, std::string_view above) {
  return path == above || above == "/" || (path.starts_with(above) && path[above.size()] == '/');
}

Result<> check_inside(int fd) {
  if (boundary.empty() || is_below(place_of(fd), boundary)) return {};
  return tl::unexpected<Error>(
      Error{.code = Errc::denied, .message = "child path would escape parent directory", .sys_errno = EXDEV});
}

// The same, for a directory on the way there.
Result<> check_on_the_way(int fd) {
  if (boundary.empty() || is_below(boundary, place_of(fd))) return {};
  return check_inside(fd);
}

}  // namespace

void stay_within(std::string root) {
  boundary = std::move(root);
}

Result<UniqueFd> open_beneath(int dir_fd, std::string_view path, int flags, unsigned mode) {
  const std::string name(path.empty() ? "." : path);
  UniqueFd fd(
      open_resolved(dir_fd, name.c_str(), flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS));
  if (!fd) return fail_errno(errno, "open {}", shown(path));
  return fd;
}

Result<UniqueFd> open_path(const std::string& path, int flags) {
  UniqueFd fd(open_resolved(AT_FDCWD, path.c_str(), flags, 0, RESOLVE_NO_MAGICLINKS));
  if (!fd && errno == ENOENT) {
    return tl::unexpected<Error>(
        Error{.code = Errc::not_found, .message = fmt::format("path not found: {}", path), .sys_errno = ENOENT});
  }
  if (!fd && !boundary.empty()) {
    // What is outside is said to be outside, whether it could be opened or not.
    const int why = errno;
    const UniqueFd there(open_resolved(AT_FDCWD, path.c_str(), O_PATH, 0, RESOLVE_NO_MAGICLINKS));
    if (there) COVE_CHECK(check_inside(there.get()));
    errno = why;
  }
  // A socket, or a device without a driver behind it: nothing that could be read.
  if (!fd && (errno == ENXIO || errno == ENODEV))
    return fail(Errc::invalid, fmt::format("{} is not a regular file", shown(path)));
  if (!fd) return fail_errno(errno, "open {}", path);
  if (path != "/") COVE_CHECK(check_inside(fd.get()));
  return fd;
}

Result<Location> locate(const std::string& path, Parents parents) {
  const auto name = base_name(path);
  if (name == "/" || name == "..") return fail(Errc::invalid, fmt::format("{} is no name of a file", shown(path)));
  const std::string parent(parent_name(path));
  if (parents == Parents::make) {
    COVE_TRY(auto made, make_directories(parent));
    return Location{.dir = std::move(made.dir), .name = std::string(name)};
  }
  auto dir = open_path(parent, O_PATH | O_DIRECTORY);
  if (!dir && dir.error().sys_errno == ENOENT)
    return tl::unexpected<Error>(
        Error{.code = Errc::not_found, .message = fmt::format("path not found: {}", path), .sys_errno = ENOENT});
  if (!dir) return tl::unexpected<Error>(dir.error());
  return Location{.dir = std::move(*dir), .name = std::string(name)};
}

Result<MadeDirectory> make_directories(const std::string& path) {
  MadeDirectory made;
  COVE_TRY(made.dir, open_path("/", O_PATH | O_DIRECTORY));
  std::string so_far;
  for (std::string_view rest = path; !rest.empty();) {
    const std::string part(take_until(rest, '/'));
    if (part.empty()) continue;
    so_far += '/';
    so_far += part;
    constexpr int kFlags = O_PATH | O_DIRECTORY;
    UniqueFd next(open_resolved(made.dir.get(), part.c_str(), kFlags, 0, RESOLVE_NO_MAGICLINKS));
    if (!next && errno == ENOENT) {
      if (::mkdirat(made.dir.get(), part.c_str(), 0755) == 0)
        made.created.push_back(so_far);
      else if (errno != EEXIST)
        return fail_errno(errno, "make directory {}", shown(so_far));
      next.reset(open_resolved(made.dir.get(), part.c_str(), kFlags, 0, RESOLVE_NO_MAGICLINKS));
    }
    if (!next) return fail_errno(errno, "open directory {}", shown(so_far));
    COVE_CHECK(check_on_the_way(next.get()));
    made.dir = std::move(next);
  }
  return made;
}

Result<struct stat> stat_at(int dir_fd, const std::string& name) {
  struct stat st{};
  if (::fstatat(dir_fd, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return fail_errno(errno, "stat {}", shown(name));
  return st;
}

Result<struct stat> stat_fd(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno(errno, "stat");
  return st;
}

bool pseudo_filesystem(int fd) {
  struct statfs fs{};
  return ::fstatfs(fd, &fs) != 0 || fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC;
}

}  // namespace cove::files
