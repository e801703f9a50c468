#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace cove::files {

struct Staged {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> marks;  // of each file, in their order (changed.hpp)
};

enum class StagedTime { zero, now };

// Files below `root` from one stream: each is a line "SIZE LENGTH", LENGTH bytes of its path relative to `root`, and
// SIZE bytes of content; the line "end" comes last. Directories on the way are made, mode 0755; files have mode 0644
// and the time 0, or that of now. No link is followed. What is there already is replaced unless it is a directory:
// Errc::invalid.
Result<Staged> stage(int in_fd, const std::string& root, StagedTime time);

}  // namespace cove::files
