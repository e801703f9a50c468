#include "async/deadline.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cove::async {

Task<> sleep_until(std::chrono::steady_clock::time_point until) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, until);
  co_await timer.async_wait(boost::asio::use_awaitable);
}

Task<> sleep_for(std::chrono::steady_clock::duration duration) {
  return sleep_until(std::chrono::steady_clock::now() + duration);
}

}  // namespace cove::async
