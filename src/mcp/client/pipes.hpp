#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "async/task.hpp"
#include "base/result.hpp"
#include "mcp/client/server_config.hpp"

namespace cove::mcp::client {

// A running stdio server: its standard input and output as bytes, and the end of its life. One coroutine writes and one
// reads; the rest is called from anywhere on the loop. The destructor kills what still runs, with all it started.
class Pipes {
 public:
  virtual ~Pipes() = default;
  Pipes() = default;
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;

  // Returns when the server, or a buffer of bounded size before it, has taken the bytes. Errc::unavailable: it takes no
  // more.
  virtual async::Task<Result<>> write(std::string bytes) = 0;
  // The next bytes of its standard output; "" at the end.
  virtual async::Task<Result<std::string>> read() = 0;
  virtual void close_input() = 0;
  // SIGTERM to the server; SIGKILL to it and all it started.
  virtual void terminate() = 0;
  virtual void kill() = 0;
  // False: it still runs at this time.
  virtual async::Task<bool> wait_end(std::chrono::steady_clock::time_point until) = 0;
  // The last of what it wrote to standard error, a few KiB, as bytes.
  [[nodiscard]] virtual std::string errors() const = 0;
  // How it ended, in words ("exit status 3", "killed by SIGSEGV"); "" while it runs, or if nobody knows.
  [[nodiscard]] virtual std::string end() const = 0;
};

// Starts the program of a stdio server: without a shell, and with HOME, LOGNAME, PATH, SHELL, TERM and USER of where it
// runs and the configured variables for an environment.
using Launch = std::function<async::Task<Result<std::unique_ptr<Pipes>>>(ServerConfig config)>;

}  // namespace cove::mcp::client
