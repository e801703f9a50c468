#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::sys {

// One line of /proc/self/mountinfo (proc_pid_mountinfo(5)), with the octal escapes undone.
struct Mount {
  std::string root;    // the part of the filesystem that is mounted
  std::string target;  // where
  std::string options;
  std::string type;
  std::string super_options;
};

std::vector<Mount> parse_mounts(std::string_view text);
Result<std::vector<Mount>> read_mounts();

}  // namespace cove::sys
