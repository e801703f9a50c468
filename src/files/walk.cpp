#include "files/walk.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "files/location.hpp"
#include "files/names.hpp"

namespace cove::files {
namespace {

// Descriptors a walk keeps: the root's, and those of the deepest levels. A sandbox may have as few as 64.
constexpr std::size_t kOpenLevels = 24;
constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

bool same(const struct stat& st, dev_t device, ino_t inode) {
  return st.st_dev == device && st.st_ino == inode;
}

}  // namespace

Result<Walk::Level> Walk::read_level(UniqueFd fd) {
  Level level;
  COVE_TRY(const auto st, stat_fd(fd.get()));
  level.device = st.st_dev;
  level.inode = st.st_ino;
  UniqueFd copy(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  if (!copy) return fail_errno(errno, "duplicate a directory");
  const std::unique_ptr<DIR, CloseDir> dir(::fdopendir(copy.get()));
  if (!dir) return fail_errno(errno, "read a directory");
  static_cast<void>(copy.release());  // the DIR's from here
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    const std::string_view name(entry->d_name);
    if (name != "." && name != "..") level.names.emplace_back(name);
  }
  if (errno != 0) return fail_errno(errno, "read a directory");
  std::sort(level.names.begin(), level.names.end());
  level.fd = std::move(fd);
  return level;
}

Result<Walk> Walk::start(UniqueFd root) {
  Walk walk;
  COVE_TRY(auto level, read_level(std::move(root)));
  walk.levels_.push_back(std::move(level));
  return walk;
}

// The parent of what is open: by ".." if it is still the same directory, else from the root by the names that led here.
bool Walk::reopen(Level& level, int child_fd) {
  if (level.fd) return true;
  if (child_fd >= 0) {
    UniqueFd up(::openat(child_fd, "..", kDirectory));
    struct stat st{};
    if (up && ::fstat(up.get(), &st) == 0 && same(st, level.device, level.inode)) {
      level.fd = std::move(up);
      return true;
    }
  }
  UniqueFd at(::fcntl(levels_.front().fd.get(), F_DUPFD_CLOEXEC, 3));
  for (const auto& on_the_way : levels_) {
    if (!at || &on_the_way == &level) break;
    at.reset(::openat(at.get(), on_the_way.names[on_the_way.next - 1].c_str(), kDirectory));
  }
  struct stat st{};
  if (!at || ::fstat(at.get(), &st) != 0 || !same(st, level.device, level.inode)) return false;
  level.fd = std::move(at);
  return true;
}

// One level up. False when there is none, or the one above was moved away: then its remaining entries are gone too.
bool Walk::leave() {
  const Level done = std::move(levels_.back());
  levels_.pop_back();
  if (levels_.empty()) return false;
  auto& level = levels_.back();
  path_.resize(done.path_size);
  step_.name = level.names[level.next - 1];
  step_.path = path_;
  step_.event = Event::leaving;
  step_.depth = levels_.size();
  if (!reopen(level, done.fd.get())) {
    level.next = level.names.size();
    return false;
  }
  step_.dir_fd = level.fd.get();
  return true;
}

const Walk::Step* Walk::next() {
  while (!levels_.empty()) {
    auto& level = levels_.back();
    if (level.next == level.names.size()) {
      if (leave()) return &step_;
      continue;
    }
    const auto& name = level.names[level.next++];
    path_.resize(level.path_size);
    if (!path_.empty()) path_ += '/';
    path_ += name;
    if (::fstatat(level.fd.get(), name.c_str(), &step_.st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    step_.event = Event::entry;
    step_.dir_fd = level.fd.get();
    step_.name = name;
    step_.path = path_;
    step_.depth = levels_.size();
    return &step_;
  }
  return nullptr;
}

Result<> Walk::descend() {
  UniqueFd fd(::openat(step_.dir_fd, step_.name.c_str(), kDirectory));
  if (!fd) return fail_errno(errno, "open {}", shown(path_));
  COVE_TRY(auto level, read_level(std::move(fd)));
  level.path_size = path_.size();
  levels_.push_back(std::move(level));
  if (levels_.size() > kOpenLevels + 1) levels_[levels_.size() - 1 - kOpenLevels].fd.reset();
  return {};
}

Result<> remove_tree(int dir_fd, const std::string& name) {
  if (::unlinkat(dir_fd, name.c_str(), 0) == 0) return {};
  if (errno != EISDIR && errno != EPERM) return fail_errno(errno, "remove {}", shown(name));
  Result<> first;
  const auto note = [&](std::string_view path) {
    if (first && errno != ENOENT) first = fail_errno(errno, "remove {}", shown(path));
  };
  // A directory its owner may not read or search can still be removed: it is the owner who asks.
  const auto unlock = [](int parent, const std::string& directory, mode_t mode) {
    if ((mode & 0700) != 0700) static_cast<void>(::fchmodat(parent, directory.c_str(), 0700, 0));
  };
  COVE_TRY(const auto st, stat_at(dir_fd, name));
  if (S_ISDIR(st.st_mode)) unlock(dir_fd, name, st.st_mode);
  UniqueFd root(::openat(dir_fd, name.c_str(), kDirectory));
  if (!root) return fail_errno(errno, "remove {}", shown(name));
  COVE_TRY(auto walk, Walk::start(std::move(root)));
  while (const auto* step = walk.next()) {
    if (step->event == Walk::Event::leaving) {
      if (::unlinkat(step->dir_fd, step->name.c_str(), AT_REMOVEDIR) != 0) note(step->path);
    } else if (!S_ISDIR(step->st.st_mode)) {
      if (::unlinkat(step->dir_fd, step->name.c_str(), 0) != 0) note(step->path);
    } else {
      unlock(step->dir_fd, step->name, step->st.st_mode);
      if (auto inside = walk.descend(); !inside && first) first = std::move(inside);
    }
  }
  if (::unlinkat(dir_fd, name.c_str(), AT_REMOVEDIR) != 0) note(name);
  return first;
}

}  // namespace cove::files
