#pragma once

#include <chrono>
#include <memory>

#include "async/task.hpp"

namespace cove::async {

// The condition variable of a single thread: look at the state, and wait while it is not what you want. Nothing can
// happen between the look and the wait. A waiter whose Signal is destroyed ends as if it had been cancelled, with
// system_error(operation_aborted).
class Signal {
 public:
  explicit Signal(boost::asio::any_io_executor executor);
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  ~Signal();

  Task<> wait();
  // False: the time has passed without a notification.
  Task<bool> wait_until(std::chrono::steady_clock::time_point until);
  // Wakes who waits now; remembers nothing for who comes later. The woken run after the caller has returned to the
  // loop.
  void notify_all();

 private:
  struct State;
  static Task<bool> wait_on(std::shared_ptr<State> state, std::chrono::steady_clock::time_point until);
  std::shared_ptr<State> state_;
};

}  // namespace cove::async
