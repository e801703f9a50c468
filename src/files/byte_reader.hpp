#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::files {

// Lines and bytes, in turn, from one descriptor. Errc::invalid when it ends too early.
class ByteReader {
 public:
  explicit ByteReader(int fd) : fd_(fd), buffer_(kRoom) {}

  // Without its end; at most 256 bytes.
  Result<std::string> line();
  Result<std::string> bytes(std::size_t count);
  // 1..most bytes, valid until the next call.
  Result<std::string_view> some(std::size_t most);

 private:
  static constexpr std::size_t kRoom = 128U << 10;
  Result<> fill();

  int fd_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace cove::files
