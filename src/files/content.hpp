#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "base/result.hpp"
#include "files/entry.hpp"

namespace cove::files {

struct ReadRange {
  std::uint64_t offset = 0;
  std::uint64_t length = std::numeric_limits<std::uint64_t>::max();
};

// One line {"size", "mtime_ns", "mode", "inode"}, then the bytes of the range, to `out_fd`. The header speaks of the
// file as it was opened; no more than that size is sent. Errc::invalid for what is no regular file.
Result<> read_content(const std::string& path, ReadRange range, int out_fd);

// Everything from `in_fd`, whole or not at all; a link in the file's place is replaced, not followed.
Result<Entry> write_content(const std::string& path, std::uint32_t mode, int in_fd);
// Behind what is there. Never through a link. What was appended before a failure stays.
Result<Entry> append_content(const std::string& path, std::uint32_t mode, int in_fd);

}  // namespace cove::files
