#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>

namespace cove::egress {

// Calls back once when a time has come, unless destroyed before: what a coroutine waits for is closed and ends, late.
class Expiry {
 public:
  Expiry(boost::asio::any_io_executor executor, std::chrono::steady_clock::time_point when,
         std::function<void()> callback)
      : state_(
            std::make_shared<State>(State{boost::asio::steady_timer(std::move(executor), when), std::move(callback)})) {
    wait(state_);
  }
  Expiry(const Expiry&) = delete;
  Expiry& operator=(const Expiry&) = delete;
  ~Expiry() {
    state_->ended = true;
    state_->timer.cancel();
  }

  [[nodiscard]] bool late() const { return state_->late; }
  void postpone(std::chrono::steady_clock::time_point when) {
    if (state_->late) return;
    state_->timer.expires_at(when);
    wait(state_);
  }

 private:
  struct State {
    boost::asio::steady_timer timer;
    std::function<void()> callback;
    bool late = false;
    bool ended = false;
  };
  static void wait(const std::shared_ptr<State>& state) {
    state->timer.async_wait([state](boost::system::error_code cancelled) {
      // It may have been set anew after it had rung.
      if (cancelled || state->ended || state->late || state->timer.expiry() > std::chrono::steady_clock::now()) return;
      state->late = true;
      state->callback();
    });
  }
  std::shared_ptr<State> state_;
};

}  // namespace cove::egress
