#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "async/task.hpp"

namespace cove::async {

// Owns the tasks started in it. An exception that escapes from one goes to `on_escape`, except the cancellation that
// cancel() asked for. Destroying the group cancels what still runs and waits for nothing: join() first.
class TaskGroup {
 public:
  using OnEscape = std::function<void(std::string_view name, std::exception_ptr)>;

  TaskGroup(boost::asio::any_io_executor executor, OnEscape on_escape);
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;
  ~TaskGroup();

  // Starts from the loop, not inside this call. May be called from a task of the group.
  void spawn(std::string name, Task<> task);
  // Cancels every task that is there now; later ones are not touched.
  void cancel();
  // Until the group is empty. Not from a task of the group.
  Task<> join();
  [[nodiscard]] std::size_t size() const;

 private:
  struct State;
  static Task<> join_on(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace cove::async
