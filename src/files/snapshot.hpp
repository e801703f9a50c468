#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>

#include "base/result.hpp"

namespace cove::files {

struct SnapshotLimits {
  std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max();  // of content, together
  std::uint64_t max_files = std::numeric_limits<std::uint64_t>::max();
};

// Path relative to the root, to the SHA-256 of what was put there.
using Known = std::map<std::string, std::string, std::less<>>;

// Lines "SHA256 LENGTH", each followed by LENGTH bytes of path; the line "end" comes last.
Result<Known> read_known(int in_fd);

// Every regular file below `root` whose path is not known, or whose bytes are others, to `out_fd`: its path as a line
// of JSON, its bytes in pieces that each begin with a line that says how many, and the line "0". After the last file
// the line "end N", where N files are left out because they are too many or too large, or could not be read. Links are
// not followed; each of two hard links is a file; whatever is called __main__.py is none. A file or directory that its
// owner may not read is made readable first.
Result<> snapshot(const std::string& root, const Known& known, int out_fd, const SnapshotLimits& limits);

}  // namespace cove::files
