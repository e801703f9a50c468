#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"

namespace cove {

// Memory that a server holds for its callers: each within a share of its own, and all within a total. For one thread.
class Budget {
 public:
  struct Limits {
    std::uint64_t of_one = 0;  // bytes of one owner; 0: no limit of its own
    std::uint64_t of_all = 0;  // bytes of all together; 0: no limit
  };

  // What is held for one piece of work. Given back when it is destroyed, which may be after the Budget is.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept;
    Charge& operator=(Charge&& other) noexcept;
    ~Charge() { release(); }

    // Errc::quota when the owner's share is used up, Errc::over_limit when everybody's is; nothing has changed then.
    // A charge that belongs to no budget grows without limit.
    Result<> grow(std::uint64_t bytes);
    void release();
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

   private:
    friend class Budget;
    struct State;
    Charge(std::shared_ptr<State> state, std::string owner) : state_(std::move(state)), owner_(std::move(owner)) {}
    std::shared_ptr<State> state_;
    std::string owner_;
    std::uint64_t bytes_ = 0;
  };

  Budget() : Budget(Limits{}) {}
  explicit Budget(Limits limits);
  void set_limits(Limits limits);

  // Holds nothing yet.
  [[nodiscard]] Charge open(std::string owner) const { return {state_, std::move(owner)}; }
  // The same with something in it.
  [[nodiscard]] Result<Charge> take(std::string owner, std::uint64_t bytes) const;

  [[nodiscard]] std::uint64_t held() const;
  [[nodiscard]] std::uint64_t refused() const;  // how often somebody was told no

 private:
  std::shared_ptr<Charge::State> state_;
};

}  // namespace cove
