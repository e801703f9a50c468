#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

namespace cove::egress {

// What was refused lately in one sandbox, for whoever has to explain why something failed. Bounded.
class Refusals {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMost = 32;

  struct Refusal {
    std::string host;
    std::uint16_t port = 0;  // 0: a lookup
    std::string rule;
    Clock::time_point at;
  };

  // The same once more is only newer.
  void add(std::string host, std::uint16_t port, std::string rule, Clock::time_point now) {
    std::erase_if(list_, [&](const Refusal& one) { return one.host == host && (one.port == port || one.port == 0); });
    list_.push_back({.host = std::move(host), .port = port, .rule = std::move(rule), .at = now});
    if (list_.size() > kMost) list_.pop_front();
  }
  void clear() { list_.clear(); }
  // The oldest first.
  [[nodiscard]] const std::deque<Refusal>& list() const { return list_; }

 private:
  std::deque<Refusal> list_;
};

}  // namespace cove::egress
