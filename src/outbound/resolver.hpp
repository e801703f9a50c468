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

// Names to addresses by the system's own resolver, which blocks: on threads of its own, bounded in number, which are
// started by the first question. Each tenant has a share of them and a line of its own, and the lines take turns, so
// that names whose servers do not answer hold up nobody but who asked for them. A look-up that nobody waits for any
// longer is taken from the line; one that has begun runs to its end, for which the name servers have a short time.
class Resolver {
 public:
  struct Options {
    std::size_t tenant_running = 2;  // at once, for one tenant
    std::size_t max_running = 16;    // and for all: as many threads
    std::size_t tenant_waiting = 64;
    std::size_t max_waiting = 1024;
    std::chrono::milliseconds timeout{5000};
  };
  // Blocks, on any thread, for about so long at most.
  using LookUp = std::function<Result<Addresses>(const std::string& host, std::chrono::milliseconds timeout)>;
  struct Counters {
    std::uint64_t begun = 0;
    std::uint64_t refused = 0;    // too many waited
    std::uint64_t timed_out = 0;  // nobody waited for the answer any more
  };

  Resolver(boost::asio::any_io_executor executor, Options options, LookUp look_up = ask_system);
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;
  ~Resolver();

  // Literal addresses are answered at once. Errc::unavailable: no such name, too late (ETIMEDOUT), or too many wait.
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
