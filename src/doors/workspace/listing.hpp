#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "sandbox/file_facts.hpp"

namespace cove::doors::workspace {

struct ListedFile {
  std::string path;  // in the session
  std::uint64_t size = 0;
  std::string time;  // 2026-03-04T10:15:00.123Z
};

// The regular files of a listing. Untrusted.
Result<std::vector<ListedFile>> regular_files(const sandbox::Listing& listing);

}  // namespace cove::doors::workspace
