#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove {

// Opens with O_CLOEXEC. `path` is relative to `dir_fd` unless absolute; AT_FDCWD for the working directory.
Result<UniqueFd> open_at(int dir_fd, const std::string& path, int flags, unsigned mode = 0);

// Reads to the end, at most `limit` bytes; more is Errc::over_limit.
Result<std::string> read_all(int fd, std::size_t limit = std::size_t{64} << 20);
Result<std::string> read_file_at(int dir_fd, const std::string& path, std::size_t limit = std::size_t{64} << 20);

// Writes everything to a blocking descriptor.
Result<> write_all(int fd, std::string_view bytes);
// One write into an existing file, as the files of /proc and cgroupfs want it.
Result<> write_file_at(int dir_fd, const std::string& path, std::string_view text);

}  // namespace cove
