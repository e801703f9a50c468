#include "files/plain_stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "files/stop.hpp"

namespace cove::files {
namespace {

constexpr std::size_t kBuffer = 128U << 10;
constexpr std::string_view kGzipMagic("\x1f\x8b", 2);

bool all_zero(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

}  // namespace

PlainStream::PlainStream(int fd, RatioLimit ratio) : fd_(fd), ratio_(ratio), input_(kBuffer), output_(kBuffer) {}

PlainStream::~PlainStream() {
  if (zlib_.state != nullptr) ::inflateEnd(&zlib_);
}

// More input behind what is left of it, if there is more. Only called with less than the magic left, so it fits.
Result<> PlainStream::fill() {
  std::copy(unread_.begin(), unread_.end(), input_.begin());
  const auto kept = unread_.size();
  unread_ = {input_.data(), kept};
  while (!at_end_) {
    const auto n = ::read(fd_, input_.data() + kept, input_.size() - kept);
    // Also at the end of the input, which may be there only because whoever sends it has given up.
    if (n <= 0 && stop_requested != 0) return fail(Errc::unavailable, "asked to stop before the archive was read");
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read the archive");
    at_end_ = n == 0;
    bytes_in_ += static_cast<std::uint64_t>(n);
    unread_ = {input_.data(), kept + static_cast<std::size_t>(n)};
    break;
  }
  return {};
}

// At the start, and after each gzip member.
Result<> PlainStream::begin() {
  while (unread_.size() < kGzipMagic.size() && !at_end_) COVE_CHECK(fill());
  if (unread_.starts_with(kGzipMagic)) {
    if (zlib_.state == nullptr && ::inflateInit2(&zlib_, 15 + 16) != Z_OK)
      return fail(Errc::io, "no memory to read gzip with");
    if (form_ == Form::gzip && ::inflateReset(&zlib_) != Z_OK) return fail(Errc::io, "zlib cannot be reset");
    form_ = Form::gzip;
    inside_member_ = true;
  } else {
    form_ = form_ == Form::unknown ? Form::plain : Form::padding;
  }
  return {};
}

Result<std::span<const char>> PlainStream::inflate_some() {
  while (true) {
    if (unread_.empty() && !at_end_) COVE_CHECK(fill());
    // zlib takes its input as it is and does not write to it, but its type is not const.
    zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(unread_.data()));  // NOLINT
    zlib_.avail_in = static_cast<uInt>(unread_.size());
    zlib_.next_out = reinterpret_cast<Bytef*>(output_.data());  // NOLINT
    zlib_.avail_out = static_cast<uInt>(output_.size());
    const int status = ::inflate(&zlib_, Z_NO_FLUSH);
    unread_.remove_prefix(unread_.size() - zlib_.avail_in);
    const std::size_t made = output_.size() - zlib_.avail_out;
    bytes_out_ += made;
    if (status == Z_STREAM_END) inside_member_ = false;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) {
      return fail(Errc::invalid, fmt::format("the archive's gzip data is broken: {}",
                                             zlib_.msg != nullptr ? zlib_.msg : "unexpected content"));
    }
    const std::uint64_t taken = bytes_in_ - unread_.size();
    if (bytes_out_ > ratio_.floor_bytes && bytes_out_ / ratio_.max_ratio > taken) {
      return fail(Errc::over_limit,
                  fmt::format("the archive unpacks to more than {} times its size", ratio_.max_ratio));
    }
    if (made > 0) return std::span<const char>(output_.data(), made);
    if (status == Z_STREAM_END) return std::span<const char>();
    if (unread_.empty() && at_end_) return fail(Errc::invalid, "the archive is cut short: its gzip data has no end");
  }
}

Result<std::span<const char>> PlainStream::read() {
  while (true) {
    if (form_ == Form::unknown || (form_ == Form::gzip && !inside_member_)) COVE_CHECK(begin());
    if (form_ == Form::gzip) {
      COVE_TRY(const auto bytes, inflate_some());
      if (!bytes.empty()) return bytes;
      continue;
    }
    if (unread_.empty() && !at_end_) COVE_CHECK(fill());
    const auto bytes = unread_;
    unread_ = {};
    if (bytes.empty()) return std::span<const char>();
    if (form_ == Form::padding) {
      if (!all_zero(bytes)) return fail(Errc::invalid, "the archive has garbage after its gzip data");
      continue;
    }
    bytes_out_ += bytes.size();
    return std::span<const char>(bytes.data(), bytes.size());
  }
}

}  // namespace cove::files
