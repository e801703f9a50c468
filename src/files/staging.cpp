#include "files/staging.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ranges>

#include "base/random_name.hpp"
#include "base/text.hpp"
#include "files/location.hpp"
#include "files/names.hpp"
#include "files/walk.hpp"

namespace cove::files {
namespace {

constexpr int kHandle = O_PATH | O_DIRECTORY;
constexpr std::size_t kMaxNameBytesKept = 64U << 20;
constexpr std::time_t kDay = 24 * 60 * 60;

std::string name_in(const std::string& path) {
  return std::string(base_name(path));
}

// 1970 breaks zip and make, and a date ahead of the clock breaks make; what wrote them knew no better.
std::array<timespec, 2> times(std::time_t mtime) {
  const auto now = std::time(nullptr);
  const bool credible = mtime > 0 && mtime <= now + kDay;
  return {{{.tv_sec = 0, .tv_nsec = UTIME_NOW}, {.tv_sec = credible ? mtime : 0, .tv_nsec = credible ? 0 : UTIME_NOW}}};
}

constexpr std::string_view kPrefix = ".cove-upload-";
constexpr std::time_t kStaleSeconds = 60;

// What an upload that was killed could not remove. One that still runs holds a lock on its directory; one that is about
// to take it is not that old.
void sweep(int dest_fd) {
  auto copy = open_beneath(dest_fd, "", O_RDONLY | O_DIRECTORY);
  if (!copy) return;
  auto walk = Walk::start(std::move(*copy));
  if (!walk) return;
  while (const auto* step = walk->next()) {
    if (!step->name.starts_with(kPrefix) || step->st.st_mtime > std::time(nullptr) - kStaleSeconds) continue;
    const auto stale = open_beneath(step->dir_fd, step->name, O_RDONLY | O_DIRECTORY);
    if (stale && ::flock(stale->get(), LOCK_EX | LOCK_NB) == 0)
      static_cast<void>(remove_tree(step->dir_fd, step->name).has_value());
  }
}

}  // namespace

Result<> set_mtime(int fd, std::time_t mtime) {
  if (::futimens(fd, times(mtime).data()) != 0) return fail_errno(errno, "set a file's time");
  return {};
}

Staging::Staging(int dest_fd, std::string name, UniqueFd dir, std::size_t max_entries)
    : dest_fd_(dest_fd), name_(std::move(name)), dir_(std::move(dir)), max_entries_(max_entries) {}

Result<Staging> Staging::create(int dest_fd, std::size_t max_entries) {
  sweep(dest_fd);
  const auto name = random_name(kPrefix);
  if (::mkdirat(dest_fd, name.c_str(), 0700) != 0) return fail_errno(errno, "make a directory in the destination");
  auto dir = open_beneath(dest_fd, name, O_RDONLY | O_DIRECTORY);
  if (!dir) {
    ::unlinkat(dest_fd, name.c_str(), AT_REMOVEDIR);
    return tl::unexpected<Error>(dir.error());
  }
  Staging staging(dest_fd, name, std::move(*dir), max_entries);
  if (::flock(staging.dir_.get(), LOCK_EX | LOCK_NB) != 0) return fail_errno(errno, "lock a directory");
  return staging;
}

Staging::~Staging() {
  if (dir_) static_cast<void>(remove_tree(dest_fd_, name_).has_value());
}

Result<> Staging::note(const std::string& path, Entry entry) {
  name_bytes_ += path.size() + entry.target.size();
  if (entries_.size() >= max_entries_)
    return fail(Errc::over_limit, fmt::format("the archive has more than {} members", max_entries_));
  if (name_bytes_ > kMaxNameBytesKept) return fail(Errc::over_limit, "the archive's names are over 64 MiB together");
  entries_.insert_or_assign(path, std::move(entry));
  return {};
}

// Borrowed until the next call. Directories on the way are made; each is opened from the one before, never by a path.
Result<int> Staging::parent_fd(const std::string& path) {
  const auto parent = parent_name(path);
  if (parent.empty()) return dir_.get();
  if (staged_.fd && staged_.path == parent) return staged_.fd.get();
  UniqueFd at;
  std::string so_far;
  for (std::string_view rest = parent; !rest.empty();) {
    const std::string part(take_until(rest, '/'));
    if (!so_far.empty()) so_far += '/';
    so_far += part;
    const int from = at ? at.get() : dir_.get();
    const auto known = entries_.find(so_far);
    if (known == entries_.end()) {
      COVE_CHECK(note(so_far, {.kind = Kind::directory}));
      if (::mkdirat(from, part.c_str(), 0755) != 0) return fail_errno(errno, "make directory {}", shown(so_far));
    } else if (known->second.kind != Kind::directory) {
      return fail(Errc::invalid, fmt::format("member {} goes through {}, which is a {} in the archive", shown(path),
                                             shown(so_far), known->second.kind == Kind::symlink ? "link" : "file"));
    }
    COVE_TRY(at, open_beneath(from, part, kHandle));
  }
  staged_ = {.path = std::string(parent), .fd = std::move(at)};
  return staged_.fd.get();
}

// The directory `path` goes into, with nothing of that name left in it, but for a directory where one is wanted.
Result<int> Staging::room_for(const std::string& path, Kind kind) {
  if (path.empty()) return fail(Errc::invalid, "a member that is no directory has the destination's own name");
  COVE_TRY(const int parent, parent_fd(path));
  const auto known = entries_.find(path);
  if (known == entries_.end()) return parent;
  const bool was_directory = known->second.kind == Kind::directory;
  if (was_directory && kind == Kind::directory) return parent;
  if (::unlinkat(parent, name_in(path).c_str(), was_directory ? AT_REMOVEDIR : 0) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST) {
      return fail(Errc::invalid,
                  fmt::format("member {} would replace a directory that has something in it", shown(path)));
    }
    return fail_errno(errno, "replace {}", shown(path));
  }
  entries_.erase(known);
  return parent;
}

Result<> Staging::add_directory(const std::string& path, Metadata metadata) {
  if (path.empty()) return {};  // "./": the destination, which keeps its own
  COVE_TRY(const int parent, room_for(path, Kind::directory));
  if (const auto known = entries_.find(path); known != entries_.end()) {
    known->second.metadata = metadata;
    known->second.has_metadata = true;
    return {};
  }
  COVE_CHECK(note(path, {.kind = Kind::directory, .metadata = metadata, .has_metadata = true}));
  // Its own mode comes last: it may be one that keeps us out.
  if (::mkdirat(parent, name_in(path).c_str(), 0755) != 0) return fail_errno(errno, "make directory {}", shown(path));
  return {};
}

Result<UniqueFd> Staging::add_file(const std::string& path) {
  COVE_TRY(const int parent, room_for(path, Kind::file));
  COVE_CHECK(note(path, {.kind = Kind::file}));
  auto fd = open_beneath(parent, name_in(path), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!fd) return fail_errno(fd.error().sys_errno, "create {}", shown(path));
  return fd;
}

Result<> Staging::add_symlink(const std::string& path, const std::string& target, std::time_t mtime) {
  COVE_TRY(const int parent, room_for(path, Kind::symlink));
  if (!link_stays_inside(path, target))
    return fail(Errc::invalid, fmt::format("link {} points outside, to {}", shown(path), shown(target)));
  COVE_CHECK(note(path, {.kind = Kind::symlink, .target = target}));
  const auto name = name_in(path);
  if (::symlinkat(target.c_str(), parent, name.c_str()) != 0) return fail_errno(errno, "link {}", shown(path));
  if (::utimensat(parent, name.c_str(), times(mtime).data(), AT_SYMLINK_NOFOLLOW) != 0)
    return fail_errno(errno, "set the time of {}", shown(path));
  return {};
}

Result<> Staging::add_hard_link(const std::string& path, const std::string& target) {
  const auto known = entries_.find(target);
  if (known == entries_.end() || known->second.kind != Kind::file) {
    return fail(Errc::invalid, fmt::format("hard link {} points to {}, which is not an earlier file of the archive",
                                           shown(path), shown(target)));
  }
  if (path == target) return {};
  COVE_TRY(auto from, open_beneath(dir_.get(), parent_name(target), kHandle));
  COVE_TRY(const int parent, room_for(path, Kind::file));
  COVE_CHECK(note(path, {.kind = Kind::file}));
  if (::linkat(from.get(), name_in(target).c_str(), parent, name_in(path).c_str(), 0) != 0)
    return fail_errno(errno, "hard link {}", shown(path));
  return {};
}

std::size_t Staging::files() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(entries_, [](const auto& item) { return item.second.kind != Kind::directory; }));
}

// ".." behind a name is only lexically the way back: if that name is a link itself, it leads up from wherever the link
// ends (AR-04). With ".." only in front the path is real, since no member lies behind a link.
Result<> Staging::check_link(const std::string& path, const Entry& entry) const {
  std::string at(parent_name(path));
  for (std::string_view rest = entry.target; !rest.empty();) {
    const auto part = take_until(rest, '/');
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      if (!at.empty()) at += '/';
      at += part;
      continue;
    }
    if (const auto passed = entries_.find(at); passed != entries_.end() && passed->second.kind == Kind::symlink) {
      return fail(Errc::invalid, fmt::format("link {} climbs up behind {}, another link, in its target {}", shown(path),
                                             shown(at), shown(entry.target)));
    }
    at = parent_name(at);
  }
  return {};
}

Result<Staging::Fate> Staging::fate_of(const std::string& path, const Entry& entry) {
  const std::string parent(parent_name(path));
  if (!placed_.fd || placed_.path != parent) {
    auto fd = open_beneath(dest_fd_, parent, kHandle);
    if (!fd && fd.error().sys_errno == ELOOP)
      return fail(Errc::invalid, fmt::format("member {} would be written through a link", shown(path)));
    if (!fd) return tl::unexpected<Error>(fd.error());
    placed_ = {.path = parent, .fd = std::move(*fd)};
  }
  const int dir = placed_.fd.get();
  const auto there = stat_at(dir, name_in(path));
  if (!there && there.error().sys_errno != ENOENT) return tl::unexpected<Error>(there.error());
  if (there && S_ISDIR(there->st_mode) && entry.kind == Kind::directory) {
    COVE_TRY(const auto ours, stat_fd(dir_.get()));
    if (there->st_dev != ours.st_dev)
      return fail(Errc::invalid, fmt::format("{} is another filesystem; upload into it directly", shown(path)));
    return Fate::merge;
  }
  if (there && S_ISLNK(there->st_mode) && entry.kind == Kind::directory)
    return fail(Errc::invalid, fmt::format("{} is a link in the sandbox; it is not written through", shown(path)));
  if (there && entry.kind == Kind::directory)
    return fail(Errc::invalid, fmt::format("{} is a directory in the archive and a file in the sandbox", shown(path)));
  if (::faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) != 0)
    return fail_errno(errno, "write {} into its directory", shown(path));
  if (there && S_ISDIR(there->st_mode)) {
    COVE_TRY(auto directory, open_beneath(dir, name_in(path), O_RDONLY | O_DIRECTORY));
    COVE_TRY(auto walk, Walk::start(std::move(directory)));
    if (walk.next() != nullptr)
      return fail(Errc::invalid, fmt::format("{} would replace a directory that has something in it", shown(path)));
  }
  return Fate::move;
}

Result<> Staging::plan() {
  for (auto& [path, entry] : entries_) {
    if (entry.kind == Kind::symlink) COVE_CHECK(check_link(path, entry));
    const auto parent = entries_.find(parent_name(path));  // a directory sorts before what is in it
    if (parent != entries_.end() && parent->second.fate != Fate::merge) continue;
    COVE_TRY(entry.fate, fate_of(path, entry));
  }
  return {};
}

Result<> Staging::move(const std::string& path) {
  const auto parent = parent_name(path);
  const auto name = name_in(path);
  COVE_TRY(const int from, parent_fd(path));
  if (!placed_.fd || placed_.path != parent) {
    COVE_TRY(auto fd, open_beneath(dest_fd_, parent, kHandle));
    placed_ = {.path = std::string(parent), .fd = std::move(fd)};
  }
  const int to = placed_.fd.get();
  if (::renameat(from, name.c_str(), to, name.c_str()) == 0) return {};
  const bool empty_directory = errno == EISDIR && ::unlinkat(to, name.c_str(), AT_REMOVEDIR) == 0;
  if (empty_directory && ::renameat(from, name.c_str(), to, name.c_str()) == 0) return {};
  return fail_errno(errno, "move {} into place", shown(path));
}

Result<> Staging::settle_directory(const std::string& path, const Metadata& metadata) {
  COVE_TRY(const auto fd, open_beneath(dest_fd_, path, O_RDONLY | O_DIRECTORY));
  COVE_CHECK(set_mtime(fd.get(), metadata.mtime));
  if (::fchmod(fd.get(), metadata.mode & 0777) != 0) return fail_errno(errno, "set the mode of {}", shown(path));
  return {};
}

Result<> Staging::commit() {
  COVE_CHECK(plan());
  for (const auto& [path, entry] : entries_) {
    if (entry.fate == Fate::move) COVE_CHECK(move(path));
  }
  // From the inside out, so that no mode set here keeps us from the next.
  for (const auto& [path, entry] : std::views::reverse(entries_)) {
    if (entry.kind == Kind::directory && entry.has_metadata && entry.fate != Fate::merge)
      COVE_CHECK(settle_directory(path, entry.metadata));
  }
  return {};
}

}  // namespace cove::files
