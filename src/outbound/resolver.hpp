#pragma once

#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"

namespace cove::outbound {

using Addresses = std::vector<boost::asio::ip::address>;

// Resolves names with the system's resolver, which blocks, on a bounded number of threads that the first lookup starts.
// Each tenant has a share of the threads and a queue; queues are served in turn, so that slow name servers delay only
// the tenant that asked. A lookup that nobody waits for is removed from its queue; one that has begun runs to its end,
// which a short timeout bounds.
class Resolver {
 public:
  struct Options {
    std::size_t tenant_running = 2;  // at once, for one tenant
    std::size_t max_running = 16;    // and for all: as many threads
    std::size_t tenant_waiting = 64;
    std::size_t max_waiting = 1024;
    std::chrono::milliseconds timeout{5000};
  };
  // Blocks any thread, for about this long at most.
  using LookUp = std::function<Result<Addresses>(const std::string& host, std::chrono::milliseconds timeout)>;
  struct Counters {
    std::uint64_t begun = 0;
    std::uint64_t refused = 0;    // the queue was full
    std::uint64_t timed_out = 0;  // the caller's deadline passed first
  };

  Resolver(boost::asio::any_io_executor executor, Options options, LookUp look_up = ask_system);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  ~Resolver();

  // Literal addresses are answered at once. Errc::unavailable: no such name, timeout (ETIMEDOUT), or a full queue.
  async::Task<Result<Addresses>> resolve(std::string host, std::string tenant,
                                         std::chrono::steady_clock::time_point until);

  [[nodiscard]] std::size_t running() const;
  [[nodiscard]] std::size_t waiting() const;
  [[nodiscard]] const Counters& counters() const;

  static Result<Addresses> ask_system(const std::string& host, std::chrono::milliseconds timeout);

 private:
  struct Lookup;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cove::outbound
