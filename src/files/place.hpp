#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::files {

// From now on what is not `root` or below it, links followed, is refused with EXDEV. For callers that promise so: the
// sandbox's own walls are elsewhere.
void stay_within(std::string root);

// Opens what `path` names below `dir_fd`; "" is `dir_fd` itself. No link on the way is followed, nothing above is
// reached. Fails with ELOOP at a link, ENOTDIR at a file.
Result<UniqueFd> open_beneath(int dir_fd, std::string_view path, int flags, unsigned mode = 0);

// Opens an absolute path of the sandbox. Its own links are followed, those of /proc never.
Result<UniqueFd> open_path(const std::string& path, int flags);

// The directory that holds what an absolute path names, and the name in it. From here on no path is resolved again.
struct Place {
  UniqueFd dir;
  std::string name;
};
enum class Parents { must_exist, make };
// Errc::invalid when the last component is "..", or the path is "/".
Result<Place> open_place(const std::string& path, Parents parents);

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

// Unguessable, for names in directories that others write to.
std::string random_name(std::string_view prefix);

}  // namespace cove::files
