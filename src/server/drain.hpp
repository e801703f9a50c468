#pragma once

#include <boost/asio/any_io_executor.hpp>

#include "async/task.hpp"
#include "server/services.hpp"

namespace cove::server {

// Shuts a server down: refuses new work, waits up to the `drain` setting for running work, stops the rest, then keeps
// or destroys sandboxes as `on_exit` says.
class Drain {
 public:
  explicit Drain(Services& services) : services_(services) {}

  // Refuses requests from now on. run() does the rest.
  void begin();
  // Stops waiting for running work: a second SIGTERM came.
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
