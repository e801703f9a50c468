#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "files/plain_stream.hpp"

namespace cove::files {

struct UnpackLimits {
  std::uint64_t max_bytes = std::uint64_t{10} << 30;  // logical sizes, together
  std::size_t max_members = 100'000;
  std::size_t max_depth = 256;
  RatioLimit ratio;
  bool absolute_names = true;  // taken as relative; false: refused
};

struct Unpacked {
  std::size_t files = 0;
  std::uint64_t bytes = 0;
};

// An archive from `in_fd` into the directory `dest` (absolute; made if missing): all of it or nothing, unless the last
// step, moving what is complete into place, is disturbed. Errc::invalid names the first bad member, Errc::over_limit
// the limit.
Result<Unpacked> unpack(int in_fd, const std::string& dest, const UnpackLimits& limits);

}  // namespace cove::files
