#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "async/task_group.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "config/config.hpp"
#include "http/server.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::listeners {

// One that is open.
struct Listener {
  config::Endpoint endpoint;  // with the port it has
  std::string tenant;
  std::string sandbox;  // its name
  std::int64_t opened_unix_ms = 0;
};

// Listeners that were opened while the server runs, each for one sandbox and its tenant alone. One goes with its
// sandbox, and all go with the server.
class Listeners {
 public:
  static constexpr std::size_t kMaxOfTenant = 64;
  static constexpr std::size_t kMaxOfAll = 256;

  // `server` is asked for when one is opened.
  Listeners(boost::asio::any_io_executor executor, async::TaskGroup& tasks, std::function<http::Server&()> server);

  // Accepts connections when this returns. Errc::conflict: the port is taken; Errc::denied: it may not be; Errc::quota
  // and Errc::unavailable: the tenant, or all of them, have too many.
  Result<Listener> open(const config::Endpoint& endpoint, std::shared_ptr<sandbox::Sandbox> sandbox);
  // In the order in which they were opened.
  [[nodiscard]] std::vector<Listener> of(const std::string& tenant) const;
  // Ends those of the tenant with this port, and their connections. Errc::not_found when there is none.
  Result<> close(const std::string& tenant, std::uint16_t port);
  [[nodiscard]] std::size_t size() const { return open_.size(); }

 private:
  struct Open {
    Listener listener;
    std::shared_ptr<const http::Binding> binding;
    std::weak_ptr<sandbox::Sandbox> sandbox;
  };
  void end(const std::shared_ptr<const http::Binding>& binding);
  async::Task<> end_with(std::shared_ptr<sandbox::Sandbox> sandbox, std::shared_ptr<const http::Binding> binding);

  boost::asio::any_io_executor executor_;
  async::TaskGroup& tasks_;
  std::function<http::Server&()> server_;
  std::vector<Open> open_;
};

}  // namespace cove::listeners
