#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "async/signal.hpp"
#include "async/task.hpp"

namespace cove::async {

// Counts work in progress so that a shutdown can wait for it. Closing the gate refuses nothing by itself: code that
// begins new work asks closed() first; work in progress may still begin parts of itself.
class Gate {
  struct State {
    explicit State(boost::asio::any_io_executor executor) : changed(std::move(executor)) {}
    std::size_t inside = 0;
    bool closed = false;
    std::size_t interrupts = 0;
    Signal changed;
  };

 public:
  explicit Gate(boost::asio::any_io_executor executor) : state_(std::make_shared<State>(std::move(executor))) {}

  // Counts as work in progress until it is destroyed. May outlive the gate.
  class Pass {
   public:
    explicit Pass(std::shared_ptr<State> state) : state_(std::move(state)) { ++state_->inside; }
    Pass(Pass&&) noexcept = default;
    Pass& operator=(Pass&&) = delete;
    ~Pass();

   private:
    std::shared_ptr<State> state_;
  };
  [[nodiscard]] Pass enter() { return Pass(state_); }

  void close() { state_->closed = true; }
  [[nodiscard]] bool closed() const { return state_->closed; }
  [[nodiscard]] std::size_t inside() const { return state_->inside; }

  // True when nobody is inside; false when the time has passed or the wait was interrupted.
  Task<bool> wait_empty(std::chrono::steady_clock::time_point until);
  // Ends every wait that goes on now.
  void interrupt();

 private:
  std::shared_ptr<State> state_;
};

}  // namespace cove::async
