#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>

#include "async/task.hpp"

namespace cove::async {

// Waits for a descriptor that somebody else owns. Must be given up, or destroyed, before that closes: the number may be
// somebody else's a moment later.
class Readiness {
 public:
  Readiness(boost::asio::any_io_executor executor, int fd) : descriptor_(executor, fd) {}
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;
  ~Readiness() { give_up(); }

  // False: it was given up.
  Task<bool> readable() {
    if (!descriptor_.is_open()) co_return false;
    const auto [failed] = co_await descriptor_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                                                          boost::asio::as_tuple(boost::asio::use_awaitable));
    co_return !failed;
  }
  // Calls back once, unless given up before.
  void when_writable(std::function<void()> callback) {
    if (!descriptor_.is_open()) return;
    descriptor_.async_wait(boost::asio::posix::descriptor_base::wait_write,
                           [callback = std::move(callback)](boost::system::error_code failed) {
                             if (!failed) callback();
                           });
  }
  // Whoever waits is told, and the descriptor is no longer known here; a waiter may still hold this object.
  void give_up() {
    if (descriptor_.is_open()) descriptor_.release();
  }

 private:
  boost::asio::posix::stream_descriptor descriptor_;
};

}  // namespace cove::async
