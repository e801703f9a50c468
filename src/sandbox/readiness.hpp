#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>

#include "async/task.hpp"

namespace cove::sandbox {

// Waits for a descriptor that somebody else owns. Must be destroyed before that closes.
class Readiness {
 public:
  Readiness(boost::asio::any_io_executor executor, int fd) : descriptor_(executor, fd) {}
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;
  ~Readiness() { descriptor_.release(); }

  // False: it was given up.
  async::Task<bool> readable() {
    const auto [failed] = co_await descriptor_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                                                          boost::asio::as_tuple(boost::asio::use_awaitable));
    co_return !failed;
  }
  // Calls back once, unless given up before.
  void when_writable(std::function<void()> callback) {
    descriptor_.async_wait(boost::asio::posix::descriptor_base::wait_write,
                           [callback = std::move(callback)](boost::system::error_code failed) {
                             if (!failed) callback();
                           });
  }
  void give_up() { descriptor_.cancel(); }

 private:
  boost::asio::posix::stream_descriptor descriptor_;
};

}  // namespace cove::sandbox
