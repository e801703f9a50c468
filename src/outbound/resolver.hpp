#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"

namespace cove::outbound {

// Names to addresses by the system's own resolver, which blocks: on a few threads of its own, which are started by the
// first question. A lookup that nobody waits for any longer runs to the resolver's own end.
class Resolver {
 public:
  explicit Resolver(boost::asio::any_io_executor executor);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  ~Resolver();

  // Literal addresses are answered at once. Errc::unavailable: no such name, too late (ETIMEDOUT), or too many ask.
  async::Task<Result<std::vector<boost::asio::ip::address>>> resolve(std::string host,
                                                                     std::chrono::steady_clock::time_point until);

 private:
  boost::asio::any_io_executor executor_;
  std::unique_ptr<boost::asio::thread_pool> threads_;
  std::shared_ptr<std::size_t> asking_;
};

}  // namespace cove::outbound
