#include "files/watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "base/io.hpp"
#include "base/unique_fd.hpp"
#include "files/json.hpp"
#include "files/location.hpp"
#include "files/names.hpp"
#include "files/stop.hpp"
#include "files/walk.hpp"

namespace cove::files {
namespace {

constexpr std::uint32_t kChanges =
    IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;

struct Change {
  int watch = -1;
  std::uint32_t mask = 0;
  std::uint32_t cookie = 0;
  std::string name;
};

class Watcher {
 public:
  Watcher(std::string root, Recursive recursive, int out_fd)
      : root_(std::move(root)), recursive_(recursive), out_fd_(out_fd) {}

  Result<> open() {
    inotify_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    if (!inotify_) return fail_errno(errno, "watch {}", shown(root_));
    COVE_TRY(const auto fd, open_path(root_, O_PATH));
    COVE_TRY(const auto st, stat_fd(fd.get()));
    COVE_TRY(root_watch_, add(root_, 0));
    if (recursive_ == Recursive::yes && S_ISDIR(st.st_mode)) COVE_CHECK(add_below(root_, Report::no));
    lines_ = "{\"type\":\"ready\"}\n";
    return flush();
  }

  Result<> run(int in_fd) {
    std::array<pollfd, 3> polls{{{.fd = inotify_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = in_fd, .events = POLLIN, .revents = 0},
                                 {.fd = out_fd_, .events = 0, .revents = 0}}};  // events 0: told of its end only
    while (!gone_ && stop_requested == 0) {
      if (::poll(polls.data(), polls.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return fail_errno(errno, "wait for changes");
      }
      if (polls[0].revents != 0) COVE_CHECK(take_changes());
      if (polls[1].revents != 0 && input_ended(in_fd)) break;
      if ((polls[2].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) break;
    }
    return {};
  }

 private:
  enum class Report { no, yes };

  static bool input_ended(int in_fd) {
    std::array<char, 4096> ignored;
    const auto n = ::read(in_fd, ignored.data(), ignored.size());
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
  }

  Result<int> add(const std::string& path, std::uint32_t extra) {
    const int id = ::inotify_add_watch(inotify_.get(), path.c_str(), kChanges | extra);
    if (id < 0 && errno == ENOSPC)  // inotify's word for too many watches, nothing to do with the disk
      return fail(Errc::over_limit, fmt::format("no more watches are left at {}", shown(path)));
    if (id < 0) return fail_errno(errno, "watch {}", shown(path));
    directories_[id] = path;
    return id;
  }

  // Watches every directory below. What is there already may have come before its watch was in place, so that nobody
  // else tells of it; told twice is better than never.
  Result<> add_below(const std::string& path, Report report) {
    const int follow_only_the_root = path == root_ ? 0 : O_NOFOLLOW;
    auto root = open_path(path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | follow_only_the_root);
    if (!root) return {};  // gone again, or not ours to read
    COVE_TRY(auto walk, Walk::start(std::move(*root)));
    while (const auto* step = walk.next()) {
      if (step->event == Walk::Event::leaving) continue;
      const auto child = (path == "/" ? "" : path) + "/" + std::string(step->path);
      if (report == Report::yes) say("created", child);
      if (!S_ISDIR(step->st.st_mode)) continue;
      const auto added = add(child, IN_ONLYDIR | IN_DONT_FOLLOW);
      if (!added && added.error().code == Errc::over_limit) return tl::unexpected<Error>(added.error());
      static_cast<void>(walk.descend().has_value());
    }
    return {};
  }

  // A directory that came while we watch.
  void follow(const std::string& path, Report report) {
    if (recursive_ == Recursive::no) return;
    auto added = add(path, IN_ONLYDIR | IN_DONT_FOLLOW);
    auto below = added ? add_below(path, report) : Result<>();
    const bool full = (!added && added.error().code == Errc::over_limit) || !below;
    if (full) say("overflow", path);
  }

  static bool is_or_is_below(const std::string& path, const std::string& directory) {
    return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
  }

  void forget_below(const std::string& directory) {
    for (const auto& [id, path] : directories_) {
      if (is_or_is_below(path, directory)) ::inotify_rm_watch(inotify_.get(), id);  // its IN_IGNORED drops it
    }
  }

  void rename_below(const std::string& from, const std::string& to) {
    for (auto& [id, path] : directories_) {
      if (is_or_is_below(path, from)) path = to + path.substr(from.size());
    }
  }

  void say(std::string_view type, const std::string& path, const std::string& to = {}) {
    auto line = fmt::format(R"({{"type":"{}","path":{})", type, json_string(path));
    if (!to.empty()) line += fmt::format(R"(,"to":{})", json_string(to));
    line += "}\n";
    if (line == last_line_) return;  // a file written to in many small pieces changes once a batch
    lines_ += line;
    last_line_ = std::move(line);
  }

  Result<> flush() {
    const auto written = write_all(out_fd_, lines_);
    lines_.clear();
    last_line_.clear();
    if (!written && written.error().sys_errno == EPIPE) {
      gone_ = true;
      return {};
    }
    return written;
  }

  Result<> take_changes() {
    while (true) {
      alignas(inotify_event) std::array<char, 64U << 10> buffer;
      const auto n = ::read(inotify_.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return {};
      if (n <= 0) return fail_errno(errno, "read changes");
      std::vector<Change> changes;
      for (std::size_t at = 0; at < static_cast<std::size_t>(n);) {
        inotify_event event{};
        std::memcpy(&event, buffer.data() + at, sizeof event);
        changes.push_back({.watch = event.wd,
                           .mask = event.mask,
                           .cookie = event.cookie,
                           .name = event.len > 0 ? std::string(buffer.data() + at + sizeof event) : std::string()});
        at += sizeof event + event.len;
      }
      for (std::size_t i = 0; i < changes.size() && !gone_; ++i) {
        // The two halves of a move within the tree stand together in the queue.
        const bool pair = (changes[i].mask & IN_MOVED_FROM) != 0 && i + 1 < changes.size() &&
                          (changes[i + 1].mask & IN_MOVED_TO) != 0 && changes[i].cookie == changes[i + 1].cookie;
        if (pair)
          moved(changes[i], changes[i + 1]);
        else
          changed(changes[i]);
        if (pair) ++i;
      }
      COVE_CHECK(flush());
      if (gone_) return {};
    }
  }

  std::optional<std::string> path_of(const Change& change) const {
    const auto directory = directories_.find(change.watch);
    if (directory == directories_.end()) return std::nullopt;
    if (change.name.empty()) return directory->second;
    return (directory->second == "/" ? "" : directory->second) + "/" + change.name;
  }

  void moved(const Change& from, const Change& to) {
    const auto old_path = path_of(from);
    const auto new_path = path_of(to);
    if (!old_path || !new_path) return;
    say("moved", *old_path, *new_path);
    if ((to.mask & IN_ISDIR) != 0) rename_below(*old_path, *new_path);
  }

  void changed(const Change& change) {
    if ((change.mask & IN_Q_OVERFLOW) != 0) {
      say("overflow", root_);
      return;
    }
    const auto path = path_of(change);
    if (!path) return;
    if ((change.mask & IN_IGNORED) != 0) {
      directories_.erase(change.watch);
      return;
    }
    const bool directory = (change.mask & IN_ISDIR) != 0;
    if ((change.mask & (IN_DELETE_SELF | IN_MOVE_SELF)) != 0) {
      // A directory's own end is told by the one it was in, but for the root, which nobody watches.
      if (change.watch != root_watch_) return;
      say("deleted", root_);
      gone_ = true;
    } else if ((change.mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
      say("created", *path);
      if (directory) follow(*path, Report::yes);
    } else if ((change.mask & (IN_DELETE | IN_MOVED_FROM)) != 0) {
      say("deleted", *path);
      if (directory) forget_below(*path);
    } else if ((change.mask & IN_MODIFY) != 0) {
      say("modified", *path);
    }
  }

  std::string root_;
  Recursive recursive_;
  int out_fd_;
  UniqueFd inotify_;
  int root_watch_ = -1;
  std::map<int, std::string> directories_;
  std::string lines_;
  std::string last_line_;
  bool gone_ = false;
};

}  // namespace

Result<> watch(const std::string& path, Recursive recursive, int in_fd, int out_fd) {
  Watcher watcher(path, recursive, out_fd);
  COVE_CHECK(watcher.open());
  return watcher.run(in_fd);
}

}  // namespace cove::files
