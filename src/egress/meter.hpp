#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "egress/policy.hpp"

namespace cove::egress {

// Something that comes back at a rate, and of which no more than a second's worth is saved up.
class TokenBucket {
 public:
  using Clock = std::chrono::steady_clock;
  TokenBucket(double per_second, Clock::time_point now) : per_second_(per_second), tokens_(per_second), at_(now) {}

  [[nodiscard]] double tokens(Clock::time_point now);
  void spend(double count) { tokens_ -= count; }
  // When there will be `count`.
  [[nodiscard]] Clock::time_point when(double count, Clock::time_point now);

 private:
  double per_second_;
  double tokens_;
  Clock::time_point at_;
};

// Holds one sandbox to the caps of its policy.
class Meter {
 public:
  using Clock = std::chrono::steady_clock;
  Meter(const Caps& caps, Clock::time_point now) { change(caps, now); }

  // What was used of `bytes` begins anew.
  void change(const Caps& caps, Clock::time_point now);
  // When the next connection may begin: nothing if it may now, and has been counted.
  std::optional<Clock::time_point> next_connection(Clock::time_point now);
  [[nodiscard]] bool room_for(std::size_t connections) const {
    return caps_.connections == 0 || connections < caps_.connections;
  }

  struct Allowance {
    std::size_t bytes = 0;
    bool spent = false;         // there will be no more
    Clock::time_point again{};  // when to ask again, if there are none now
  };
  [[nodiscard]] Allowance allowance(std::size_t wanted, Clock::time_point now);
  void count(std::size_t bytes);
  // Whether `bytes` of the cap is used up.
  [[nodiscard]] bool is_spent() const { return caps_.bytes > 0 && used_ >= caps_.bytes; }
  // False, and nothing is left: so many bytes are more than the cap has left.
  bool take_whole(std::size_t bytes);

 private:
  Caps caps_;
  std::optional<TokenBucket> connections_;
  std::optional<TokenBucket> bytes_;
  std::uint64_t used_ = 0;
};

}  // namespace cove::egress
