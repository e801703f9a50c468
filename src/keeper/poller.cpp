#include "keeper/poller.hpp"

#include <array>

namespace cove::keeper {

void Poller::add(int fd, Event event, std::uint32_t events) {
  const auto data = (static_cast<std::uint64_t>(event.sandbox) << 32) | static_cast<std::uint32_t>(event.source);
  epoll_event wanted{.events = events, .data = {.u64 = data}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &wanted);
}

void Poller::remove(int fd) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

std::vector<Poller::Event> Poller::wait(int timeout_millis) {
  std::array<epoll_event, 64> ready;
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), timeout_millis);
  std::vector<Event> events;
  for (int i = 0; i < count; ++i) {
    const auto data = ready[static_cast<std::size_t>(i)].data.u64;
    events.push_back(
        {.sandbox = static_cast<std::uint32_t>(data >> 32), .source = static_cast<Source>(data & 0xffffffff)});
  }
  return events;
}

}  // namespace cove::keeper
