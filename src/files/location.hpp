#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::files {

// From now on every path that leads outside `root`, links followed, fails with EXDEV. A promise of the API, not a wall:
// what isolates the sandbox is elsewhere.
void stay_within(std::string root);

// Opens `path` below `dir_fd`; "" is `dir_fd` itself. Follows no links and never leaves `dir_fd`: fails with ELOOP at a
// link and ENOTDIR at a file.
Result<UniqueFd> open_beneath(int dir_fd, std::string_view path, int flags, unsigned mode = 0);

// Opens an absolute path of the sandbox. Its own links are followed, those of /proc never.
Result<UniqueFd> open_path(const std::string& path, int flags);

// An absolute path as an open directory and a name in it, so that the path is resolved only once.
struct Location {
  UniqueFd dir;
  std::string name;
};
enum class Parents { must_exist, make };
// Errc::invalid when the last component is "..", or the path is "/".
Result<Location> locate(const std::string& path, Parents parents);

// mkdir -p. `created` are the directories that were not there before, outermost first.
struct MadeDirectory {
  UniqueFd dir;
  std::vector<std::string> created;
};
Result<MadeDirectory> make_directories(const std::string& path);

Result<struct stat> stat_at(int dir_fd, const std::string& name);  // never through a link
Result<struct stat> stat_fd(int fd);

// proc and sysfs: what they call regular files may have no end, or no size.
bool pseudo_filesystem(int fd);

}  // namespace cove::files
