#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "async/task_group.hpp"
#include "mcp/client/client.hpp"

namespace cove::tools {

// The connection to one server: made by the first who needs it, shared by all, made again after a failure, though not
// at once. For one loop.
class Connection {
 public:
  struct Way {
    mcp::client::Environment environment;
    mcp::client::ServerConfig config;  // substituted
  };
  using Find = std::function<Result<Way>()>;
  Connection(boost::asio::any_io_executor executor, async::TaskGroup& tasks, Find find);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  static async::Task<Result<std::shared_ptr<mcp::client::Client>>> get(std::shared_ptr<Connection> self);
  // What came of a call over it: failures in a row make the next wait.
  void report(const Result<mcp::client::CallResult>& result);
  // Ends it. The next get() makes another.
  void close();
  [[nodiscard]] bool open() const { return client_ != nullptr; }
  // Another one when it was made anew, and when the server says that its tools have changed.
  [[nodiscard]] std::uint64_t version() const { return version_; }

 private:
  void back_off(const Error& error);

  async::TaskGroup& tasks_;
  Find find_;
  async::Signal settled_;
  std::shared_ptr<mcp::client::Client> client_;
  bool connecting_ = false;
  std::uint32_t failures_ = 0;
  std::chrono::steady_clock::time_point again_at_;
  std::optional<Error> last_;
  std::uint64_t version_ = 0;
};

}  // namespace cove::tools
