#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/output_end.hpp"
#include "wire/init_messages.hpp"

namespace cove::init {

// What one process wrote, its streams in the order they were read, cut into numbered pieces. At most kWindow bytes of a
// stream wait for the front's acknowledgement; while that is full nothing is read, so the pipe fills and the producer
// waits. Past the limit bytes are counted and thrown away, but for the last of them if they are wanted. Acknowledged
// pieces are kept as far as `history` allows, for a front that comes back and asks again. A channel has no limit, and
// each of its records stays one piece.
class OutputLog {
 public:
  static constexpr std::size_t kWindow = 256U << 10;

  OutputLog(wire::OutputLimit limit, std::size_t history) : limit_(limit), history_(history) {}

  void open(wire::Stream stream, int fd) { source(stream).fd = fd; }
  [[nodiscard]] int fd(wire::Stream stream) const { return source(stream).fd; }
  [[nodiscard]] bool is_open(wire::Stream stream) const { return source(stream).fd >= 0; }
  [[nodiscard]] bool any_open() const {
    return std::any_of(sources_.begin(), sources_.end(), [](const Source& from) { return from.fd >= 0; });
  }
  void close(wire::Stream stream);

  void set_limit(wire::OutputLimit limit) { limit_ = limit; }
  // The output is over: the end of streams that went past their limit becomes pieces. What still comes is read and
  // forgotten, so that whoever writes it is not stopped by us.
  void finish();
  // Whether the descriptor should be polled for input.
  [[nodiscard]] bool wants_input(wire::Stream stream) const;
  // Whether what is read of it now would be thrown away.
  [[nodiscard]] bool discards(wire::Stream stream) const {
    return ignoring_ || source(stream).kept >= beginning_of(stream);
  }
  // Bytes thrown away so far, counted or not.
  [[nodiscard]] std::uint64_t discarded() const { return discarded_; }

  enum class Read { some, nothing_now, end };
  // One read of at most `scratch_size` bytes.
  Read read_some(wire::Stream stream, char* scratch, std::size_t scratch_size);

  // The next piece to send; nullopt when all have been, or nobody asked yet.
  [[nodiscard]] std::optional<wire::Output> unsent() const;
  void mark_sent() {
    ever_sent_ = std::max(ever_sent_, pieces_[cursor_].sequence);
    ++cursor_;
  }
  [[nodiscard]] bool all_sent() const { return cursor_ == pieces_.size(); }
  // Sends again from this number on, or from the first that is still kept.
  void rewind(std::uint64_t sequence);
  void acknowledge(wire::Stream stream, std::uint64_t offset);

  [[nodiscard]] std::uint64_t first_sequence() const {
    return first_ < pieces_.size() ? pieces_[first_].sequence : next_;
  }
  [[nodiscard]] std::uint64_t next_sequence() const { return next_; }
  [[nodiscard]] std::uint64_t total(wire::Stream stream) const { return source(stream).total; }
  [[nodiscard]] bool flooded(std::uint64_t beyond) const;

 private:
  struct Source {
    int fd = -1;
    std::uint64_t total = 0;         // everything read while it counted
    std::uint64_t kept = 0;          // of it, what went into pieces
    std::uint64_t acknowledged = 0;  // of that, what the front has
    std::optional<OutputEnd> end;    // past the beginning, with Kept::both_ends
  };
  struct Piece {
    std::uint64_t sequence;
    std::uint64_t offset;  // of its first byte in its stream
    std::uint64_t begin;   // of its first byte in everything ever held
    std::uint32_t size;
    wire::Stream stream;
  };
  [[nodiscard]] const Source& source(wire::Stream stream) const { return sources_[wire::index_of(stream)]; }
  [[nodiscard]] Source& source(wire::Stream stream) { return sources_[wire::index_of(stream)]; }
  [[nodiscard]] std::uint64_t limit_of(wire::Stream stream) const {
    return stream == wire::Stream::channel ? UINT64_MAX : limit_.bytes;
  }
  // What is passed on at once.
  [[nodiscard]] std::uint64_t beginning_of(wire::Stream stream) const {
    const auto limit = limit_of(stream);
    const bool shared = stream != wire::Stream::channel && limit_.kept == wire::Kept::both_ends;
    return shared ? OutputEnd::beginning(limit) : limit;
  }
  // Of the window, for this stream's next read.
  [[nodiscard]] std::uint64_t free_window(wire::Stream stream) const;
  void keep(wire::Stream stream, std::string_view bytes);
  void trim();

  wire::OutputLimit limit_;
  std::size_t history_;
  std::array<Source, std::size(wire::kStreams)> sources_;
  std::string data_;
  std::uint64_t data_begin_ = 0;  // where data_[0] is in everything ever held
  std::vector<Piece> pieces_;
  std::size_t first_ = 0;   // pieces before it are dropped
  std::size_t cursor_ = 0;  // pieces before it have been sent
  std::uint64_t next_ = wire::kFirstOutput;
  std::uint64_t ever_sent_ = 0;  // a piece that somebody may have grows no more
  std::uint64_t discarded_ = 0;
  bool ignoring_ = false;
};

}  // namespace cove::init
