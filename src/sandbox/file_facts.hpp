#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace cove::sandbox {

// What the file helper says of a file before its content. The sandbox's word.
struct FileFacts {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
};

// Of the helper's first line.
Result<FileFacts> parse_facts(const std::string& line);
std::string etag_of(const FileFacts& facts);

}  // namespace cove::sandbox
