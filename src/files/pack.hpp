#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "base/result.hpp"

namespace cove::files {

struct PackLimits {
  std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max();
  // Of a directory, and of nothing else (Errc::not_found): its files and the links to files, without entries for
  // directories.
  bool only_files = false;
};

// Everything below `src` (absolute), or the one file it is, as gzip-compressed tar to `out_fd`: names relative to `src`
// and sorted, owner 0, no special files, no links that lead out, hard links as files of their own. Memory does not grow
// with the content. Errc::not_found and Errc::over_limit before the first byte; after a later failure the archive has
// no end.
Result<> pack(const std::string& src, int out_fd, const PackLimits& limits);

}  // namespace cove::files
