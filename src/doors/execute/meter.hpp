#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace cove::doors::execute {

enum class Operation : std::uint8_t { execute, execute_stream, session_create, session_bash };
std::string_view name_of(Operation operation);

enum class Outcome : std::uint8_t { ok, timed_out, error };

// The metrics of this door, under the names that its clients know.
class Meter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Meter(prometheus::Registry& registry);

  void rejected(Operation operation, unsigned status, std::string_view reason);
  void waited(Operation operation, Clock::duration duration);

  // One admitted run, until its end. Counts as an error unless a result is set.
  class Running {
   public:
    Running(Meter& meter, Operation operation);
    Running(Running&& other) noexcept
        : meter_(std::exchange(other.meter_, nullptr)),
          operation_(other.operation_),
          outcome_(other.outcome_),
          began_(other.began_) {}
    Running& operator=(Running&&) = delete;
    ~Running();
    void set(Outcome outcome) { outcome_ = outcome; }

   private:
    Meter* meter_;
    Operation operation_;
    Outcome outcome_ = Outcome::error;
    Clock::time_point began_;
  };

 private:
  prometheus::Family<prometheus::Gauge>& active_;
  prometheus::Family<prometheus::Counter>& rejected_;
  prometheus::Family<prometheus::Counter>& completed_;
  prometheus::Family<prometheus::Histogram>& wait_;
  prometheus::Family<prometheus::Histogram>& duration_;
};

}  // namespace cove::doors::execute
