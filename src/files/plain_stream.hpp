#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::files {

struct RatioLimit {
  std::uint64_t max_ratio = 200;
  std::uint64_t floor_bytes = 64U << 20;  // below this much output any ratio will do
};

// What comes out of a descriptor once gzip, if it is gzip, has been undone. Checksums are verified; members may follow
// one another; after the last only zeros may come. zlib's own reader rather than libarchive's filter, which skips the
// checksum and takes garbage behind a member for its end.
class PlainStream {
 public:
  PlainStream(int fd, RatioLimit ratio);
  ~PlainStream();
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  // The next bytes, valid until the next call; empty at the end. Errc::invalid for a broken or cut stream,
  // Errc::over_limit for one that grows too much.
  Result<std::span<const char>> read();
  [[nodiscard]] std::uint64_t bytes_out() const { return bytes_out_; }

 private:
  enum class Form { unknown, plain, gzip, padding };

  Result<> fill();
  Result<> begin();
  Result<std::span<const char>> inflate_some();

  int fd_;
  RatioLimit ratio_;
  Form form_ = Form::unknown;
  z_stream zlib_{};
  bool inside_member_ = false;
  bool at_end_ = false;
  std::uint64_t bytes_in_ = 0;
  std::uint64_t bytes_out_ = 0;
  std::vector<char> input_;
  std::string_view unread_;  // of input_
  std::vector<char> output_;
};

}  // namespace cove::files
