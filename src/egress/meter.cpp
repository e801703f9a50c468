#include "egress/meter.hpp"

#include <algorithm>

namespace cove::egress {

double TokenBucket::tokens(Clock::time_point now) {
  const auto passed = std::chrono::duration<double>(now - at_).count();
  if (passed > 0) {
    tokens_ = std::min(tokens_ + passed * per_second_, per_second_);
    at_ = now;
  }
  return tokens_;
}

TokenBucket::Clock::time_point TokenBucket::when(double count, Clock::time_point now) {
  const auto missing = std::max(0.0, count - tokens(now));
  return now + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(missing / per_second_)) +
         std::chrono::milliseconds(1);
}

void Meter::change(const Caps& caps, Clock::time_point now) {
  if (caps != caps_) used_ = 0;
  caps_ = caps;
  connections_.reset();
  bytes_.reset();
  if (caps.connections_per_second > 0) connections_.emplace(caps.connections_per_second, now);
  if (caps.bytes_per_second > 0) bytes_.emplace(static_cast<double>(caps.bytes_per_second), now);
}

std::optional<Meter::Clock::time_point> Meter::next_connection(Clock::time_point now) {
  if (!connections_) return std::nullopt;
  if (connections_->tokens(now) < 1) return connections_->when(1, now);
  connections_->spend(1);
  return std::nullopt;
}

Meter::Allowance Meter::allowance(std::size_t wanted, Clock::time_point now) {
  Allowance allowance{.bytes = wanted};
  if (caps_.bytes > 0) {
    const auto left = caps_.bytes - std::min(used_, caps_.bytes);
    if (left == 0) return Allowance{.spent = true};
    allowance.bytes = static_cast<std::size_t>(std::min<std::uint64_t>(wanted, left));
  }
  if (bytes_) {
    const auto there = bytes_->tokens(now);
    // Not a byte at a time.
    const auto worth = std::min(1024.0, static_cast<double>(caps_.bytes_per_second));
    if (there < worth) return Allowance{.again = bytes_->when(worth, now)};
    allowance.bytes = std::min(allowance.bytes, static_cast<std::size_t>(there));
  }
  return allowance;
}

bool Meter::take_whole(std::size_t bytes) {
  if (caps_.bytes > 0 && caps_.bytes - std::min(used_, caps_.bytes) < bytes) {
    used_ = caps_.bytes;
    return false;
  }
  count(bytes);
  return true;
}

void Meter::count(std::size_t bytes) {
  used_ += bytes;
  if (bytes_) bytes_->spend(static_cast<double>(bytes));
}

}  // namespace cove::egress
