#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace cove::doors::workspace {

struct ListedFile {
  std::string path;  // in the session
  std::uint64_t size = 0;
  std::string time;  // 2026-03-04T10:15:00.123Z
};
struct Listing {
  std::vector<ListedFile> files;
  bool cut = false;  // there are more
};

// The regular files that the file helper told of. The sandbox's word.
Result<Listing> listed_files(const std::string& answer);

}  // namespace cove::doors::workspace
