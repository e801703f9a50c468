#pragma once

#include <algorithm>
#include <cstdint>

namespace cove::init {

// Bounds the rate at which output nobody will read is thrown away, over all processes together: a flood waits for its
// pipe, and costs the host no more than a program that sleeps. Times are in milliseconds.
class DiscardThrottle {
 public:
  // Bytes thrown away in this round of the loop.
  void count(std::uint64_t bytes) { discarded_ += bytes; }
  // At the end of a round.
  void update(std::int64_t now) {
    budget_ = std::min(kBurst, budget_ + (now - updated_) * kBytesPerMilli);
    updated_ = now;
    budget_ -= static_cast<std::int64_t>(discarded_);
    discarded_ = 0;
    if (budget_ < 0) closed_until_ = now + 1 + -budget_ / kBytesPerMilli;
  }
  // Until then nothing more may be thrown away.
  [[nodiscard]] std::int64_t closed_until() const { return closed_until_; }

 private:
  static constexpr std::int64_t kBytesPerMilli = 256 << 10;  // 256 MiB a second
  static constexpr std::int64_t kBurst = 4 * kBytesPerMilli;

  std::uint64_t discarded_ = 0;
  std::int64_t budget_ = kBurst;
  std::int64_t updated_ = 0;
  std::int64_t closed_until_ = 0;
};

}  // namespace cove::init
