#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cove::init {

// One output stream of a process. Keeps at most kWindow bytes that the front has not acknowledged; while it is full
// nothing is read, so the pipe fills and the producer waits. Past the limit bytes are counted and thrown away.
class Stream {
 public:
  static constexpr std::size_t kWindow = 256U << 10;

  explicit Stream(std::uint64_t limit) : limit_(limit) {}

  void open(int fd) { fd_ = fd; }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool is_open() const { return fd_ >= 0; }
  void close();

  // Nothing more is kept: what comes is read and forgotten, so that whoever still writes is not stopped by us.
  void ignore_from_now() { ignoring_ = true; }

  // Whether the descriptor should be polled for input.
  [[nodiscard]] bool wants_input() const { return is_open() && (ignoring_ || kept_.size() < kWindow || past_limit()); }

  enum class Read { some, nothing_now, end };
  // One read of at most `scratch_size` bytes.
  Read read_some(char* scratch, std::size_t scratch_size);

  // Bytes not sent yet, at most `most`.
  [[nodiscard]] std::string_view unsent(std::size_t most) const;
  [[nodiscard]] std::uint64_t sent_offset() const { return acknowledged_ + sent_; }
  void mark_sent(std::size_t count) { sent_ += count; }
  void acknowledge(std::uint64_t offset);

  [[nodiscard]] bool all_sent() const { return sent_ == kept_.size(); }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t thrown_away() const { return total_ > limit_ ? total_ - limit_ : 0; }

 private:
  [[nodiscard]] bool past_limit() const { return acknowledged_ + kept_.size() >= limit_; }

  int fd_ = -1;
  std::uint64_t limit_;
  std::uint64_t total_ = 0;         // everything read while it counted
  std::uint64_t acknowledged_ = 0;  // offset of kept_[0]
  std::string kept_;
  std::size_t sent_ = 0;  // of kept_
  bool ignoring_ = false;
};

}  // namespace cove::init
