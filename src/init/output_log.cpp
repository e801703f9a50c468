#include "init/output_log.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace cove::init {
namespace {

constexpr std::size_t kPieceCost = 64;  // what a piece takes besides its bytes
constexpr std::size_t kMaxEndPiece = 32U << 10;
constexpr std::size_t kMergeUpTo = 16U << 10;  // small writes that wait to be sent become one piece

}  // namespace

void OutputLog::close(wire::Stream stream) {
  auto& from = source(stream);
  if (from.fd >= 0) ::close(from.fd);
  from.fd = -1;
}

// A record is read whole or not at all.
std::uint64_t OutputLog::free_window(wire::Stream stream) const {
  const auto& from = source(stream);
  const std::uint64_t left = kWindow - std::min<std::uint64_t>(kWindow, from.kept - from.acknowledged);
  return stream == wire::Stream::channel && left < wire::kMaxRecord ? 0 : left;
}

bool OutputLog::wants_input(wire::Stream stream) const {
  const auto& from = source(stream);
  return from.fd >= 0 && (discards(stream) || free_window(stream) > 0);
}

bool OutputLog::flooded(std::uint64_t beyond) const {
  return std::any_of(std::begin(wire::kStreams), std::end(wire::kStreams), [&](wire::Stream stream) {
    const auto total = source(stream).total;
    return total > limit_of(stream) && total - limit_of(stream) > beyond;
  });
}

OutputLog::Read OutputLog::read_some(wire::Stream stream, char* scratch, std::size_t scratch_size) {
  auto& from = source(stream);
  const auto beginning = beginning_of(stream);
  const std::size_t most = discards(stream)
                               ? scratch_size
                               : static_cast<std::size_t>(std::min<std::uint64_t>(scratch_size, free_window(stream)));
  if (most == 0) return Read::nothing_now;
  const auto n = ::read(from.fd, scratch, most);
  if (n < 0) {
    if (errno == EINTR || errno == EAGAIN) return Read::nothing_now;
    return Read::end;  // EIO: the last process on this terminal is gone
  }
  if (n == 0) return Read::end;
  const auto count = static_cast<std::uint64_t>(n);
  if (ignoring_) {
    discarded_ += count;
    return Read::some;
  }
  from.total += count;
  const auto kept = static_cast<std::size_t>(std::min(count, from.kept < beginning ? beginning - from.kept : 0));
  if (kept > 0) keep(stream, {scratch, kept});
  if (kept < count && beginning < limit_of(stream)) {
    if (!from.end) from.end.emplace(limit_of(stream));
    from.end->add({scratch + kept, static_cast<std::size_t>(count) - kept});
  }
  discarded_ += count - kept;
  return Read::some;
}

void OutputLog::finish() {
  for (const auto stream : wire::kStreams) {
    auto& from = source(stream);
    if (ignoring_ || !from.end) continue;
    const auto rest = from.end->take();
    from.end.reset();
    for (std::size_t at = 0; at < rest.size(); at += kMaxEndPiece)
      keep(stream, std::string_view(rest).substr(at, kMaxEndPiece));
  }
  ignoring_ = true;
}

void OutputLog::keep(wire::Stream stream, std::string_view bytes) {
  auto& from = source(stream);
  const bool merge = stream != wire::Stream::channel && cursor_ < pieces_.size() &&
                     pieces_.back().sequence > ever_sent_ && pieces_.back().stream == stream &&
                     pieces_.back().size + bytes.size() <= kMergeUpTo;
  if (merge) {
    pieces_.back().size += static_cast<std::uint32_t>(bytes.size());
  } else {
    pieces_.push_back({.sequence = next_++,
                       .offset = from.kept,
                       .begin = data_begin_ + data_.size(),
                       .size = static_cast<std::uint32_t>(bytes.size()),
                       .stream = stream});
  }
  data_.append(bytes);
  from.kept += bytes.size();
}

std::optional<wire::Output> OutputLog::unsent() const {
  if (cursor_ == pieces_.size()) return std::nullopt;
  const auto& piece = pieces_[cursor_];
  return wire::Output{
      .stream = piece.stream,
      .sequence = piece.sequence,
      .offset = piece.offset,
      .bytes = std::string_view(data_).substr(static_cast<std::size_t>(piece.begin - data_begin_), piece.size)};
}

void OutputLog::rewind(std::uint64_t sequence) {
  cursor_ = first_;
  while (cursor_ < pieces_.size() && pieces_[cursor_].sequence < sequence) ++cursor_;
}

void OutputLog::acknowledge(wire::Stream stream, std::uint64_t offset) {
  auto& from = source(stream);
  from.acknowledged = std::max(from.acknowledged, std::min(offset, from.kept));
  trim();
}

// Oldest first, and only what has been sent and acknowledged.
void OutputLog::trim() {
  const auto held = [&] {
    return static_cast<std::size_t>(data_begin_ + data_.size() - pieces_[first_].begin) +
           (pieces_.size() - first_) * kPieceCost;
  };
  while (first_ < cursor_ && held() > history_) {
    const auto& piece = pieces_[first_];
    if (piece.offset + piece.size > source(piece.stream).acknowledged) break;
    ++first_;
  }
  // The memory is given back in large steps.
  const std::uint64_t begin = first_ < pieces_.size() ? pieces_[first_].begin : data_begin_ + data_.size();
  if (begin - data_begin_ >= std::max<std::size_t>(data_.size() / 2, 1)) {
    data_.erase(0, static_cast<std::size_t>(begin - data_begin_));
    data_begin_ = begin;
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(first_));
    cursor_ -= first_;
    first_ = 0;
  }
}

}  // namespace cove::init
