#include "async/signal.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <list>

namespace cove::async {

namespace asio = boost::asio;

namespace {

struct Waiter {
  asio::steady_timer timer;
  bool notified = false;
};

}  // namespace

// Outlives the Signal for as long as somebody waits.
struct Signal::State {
  explicit State(asio::any_io_executor e) : executor(std::move(e)) {}
  asio::any_io_executor executor;
  std::list<Waiter> waiters;
};

Signal::Signal(asio::any_io_executor executor) : state_(std::make_shared<State>(std::move(executor))) {}

Signal::~Signal() {
  for (auto& waiter : state_->waiters) waiter.timer.cancel();
}

void Signal::notify_all() {
  for (auto& waiter : state_->waiters) {
    waiter.notified = true;
    waiter.timer.cancel();
  }
}

Task<bool> Signal::wait_on(std::shared_ptr<State> state, std::chrono::steady_clock::time_point until) {
  state->waiters.push_front(Waiter{asio::steady_timer(state->executor, until)});
  // Also leaves the list when the frame is destroyed without being resumed, as it is with its io_context.
  struct Leave {
    State& state;
    std::list<Waiter>::iterator at;
    ~Leave() { state.waiters.erase(at); }
  } const leave{*state, state->waiters.begin()};

  auto [ec] = co_await leave.at->timer.async_wait(asio::as_tuple(asio::use_awaitable));
  if (leave.at->notified) co_return true;
  if (ec) throw boost::system::system_error(ec);
  co_return false;
}

Task<bool> Signal::wait_until(std::chrono::steady_clock::time_point until) {
  return wait_on(state_, until);
}

Task<> Signal::wait() {
  auto state = state_;
  return [](std::shared_ptr<State> s) -> Task<> {
    co_await wait_on(std::move(s), std::chrono::steady_clock::time_point::max());
  }(std::move(state));
}

}  // namespace cove::async
