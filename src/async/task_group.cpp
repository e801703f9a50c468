#include "async/task_group.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <list>
#include <vector>

#include "async/signal.hpp"

namespace cove::async {

namespace asio = boost::asio;

namespace {

struct Entry {
  std::string name;
  asio::cancellation_signal cancellation;
  bool cancelled = false;
};

bool is_cancellation(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const boost::system::system_error& e) {
    return e.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

}  // namespace

struct TaskGroup::State {
  State(asio::any_io_executor e, OnEscape escape)
      : executor(std::move(e)), on_escape(std::move(escape)), changed(executor) {}
  asio::any_io_executor executor;
  OnEscape on_escape;
  std::list<std::shared_ptr<Entry>> entries;
  Signal changed;
};

TaskGroup::TaskGroup(asio::any_io_executor executor, OnEscape on_escape)
    : state_(std::make_shared<State>(std::move(executor), std::move(on_escape))) {}

TaskGroup::~TaskGroup() {
  cancel();
}

void TaskGroup::spawn(std::string name, Task<> task) {
  auto entry = std::make_shared<Entry>();
  entry->name = std::move(name);
  const auto at = state_->entries.insert(state_->entries.end(), entry);
  // The handler holds the state: the list must be there for a task that ends after its group.
  auto done = [state = state_, at](const std::exception_ptr& error) {
    const auto ended = *at;
    state->entries.erase(at);
    if (error && state->on_escape && !(ended->cancelled && is_cancellation(error)))
      state->on_escape(ended->name, error);
    if (state->entries.empty()) state->changed.notify_all();
  };
  asio::co_spawn(
      state_->executor, std::move(task),
      asio::bind_cancellation_slot(entry->cancellation.slot(), asio::bind_executor(state_->executor, std::move(done))));
}

void TaskGroup::cancel() {
  const std::vector<std::shared_ptr<Entry>> now(state_->entries.begin(), state_->entries.end());
  for (const auto& entry : now) {
    entry->cancelled = true;
    entry->cancellation.emit(asio::cancellation_type::terminal);
  }
  // Emitted from outside of the loop, it arrives from the loop, through the entry: a task that ends before must not
  // take that along.
  asio::post(state_->executor, [now] {});
}

Task<> TaskGroup::join_on(std::shared_ptr<State> state) {
  while (!state->entries.empty()) co_await state->changed.wait();
}

Task<> TaskGroup::join() {
  return join_on(state_);
}

std::size_t TaskGroup::size() const {
  return state_->entries.size();
}

}  // namespace cove::async
