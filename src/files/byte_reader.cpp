#include "files/byte_reader.hpp"

#include <unistd.h>

#include <algorithm>

#include "files/stop.hpp"

namespace cove::files {
namespace {

constexpr std::size_t kLineLimit = 256;

}  // namespace

// Only when nothing is left.
Result<> ByteReader::fill() {
  while (true) {
    const auto n = ::read(fd_, buffer_.data(), buffer_.size());
    if (n <= 0 && stop_requested != 0) return fail(Errc::unavailable, "asked to stop");
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read");
    if (n == 0) return fail(Errc::invalid, "the input ends too early");
    begin_ = 0;
    end_ = static_cast<std::size_t>(n);
    return {};
  }
}

Result<std::string_view> ByteReader::some(std::size_t most) {
  if (begin_ == end_) COVE_CHECK(fill());
  const auto count = std::min(most, end_ - begin_);
  const std::string_view out(buffer_.data() + begin_, count);
  begin_ += count;
  return out;
}

Result<std::string> ByteReader::bytes(std::size_t count) {
  std::string out;
  while (out.size() < count) {
    COVE_TRY(const auto piece, some(count - out.size()));
    out += piece;
  }
  return out;
}

Result<std::string> ByteReader::line() {
  std::string out;
  while (out.size() <= kLineLimit) {
    COVE_TRY(const auto piece, some(1));
    if (piece == "\n") return out;
    out += piece;
  }
  return fail(Errc::invalid, "a line of the input is too long");
}

}  // namespace cove::files
