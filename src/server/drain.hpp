#pragma once

#include <boost/asio/any_io_executor.hpp>

#include "async/task.hpp"
#include "server/services.hpp"

namespace cove::server {

// The end of a server: nothing new begins, what runs may end by itself for `drain` of the configuration, then it is
// stopped, then sandboxes are kept or ended as `on_exit` says.
class Drain {
 public:
  explicit Drain(Services& services) : services_(services) {}

  // Requests are refused from now on. run() does the rest.
  void begin();
  // Whoever asks again does not want to wait.
  void hurry();
  // True: everything that was to end has ended.
  async::Task<bool> run();

 private:
  async::Task<> wait_for_work();
  async::Task<> stop_work();
  async::Task<bool> end_sandboxes();

  Services& services_;
  bool hurry_ = false;
};

}  // namespace cove::server
