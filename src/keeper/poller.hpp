#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <vector>

#include "base/unique_fd.hpp"

namespace cove::keeper {

// Every descriptor the keeper waits for, each with what it belongs to.
class Poller {
 public:
  enum class Source : std::uint32_t { front, report, process, oom, zygotes, network };
  struct Event {
    std::uint32_t sandbox = 0;  // its number in the SandboxTable; 0: of no sandbox
    Source source{};
  };

  Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}
  void add(int fd, Event event, std::uint32_t events = EPOLLIN);
  void remove(int fd);
  // Up to 64 events; none when the time is over. A negative timeout never is.
  std::vector<Event> wait(int timeout_millis);

 private:
  UniqueFd epoll_;
};

}  // namespace cove::keeper
