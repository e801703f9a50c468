#include "init/watch.hpp"

#include <algorithm>
#include <cerrno>

namespace cove::init {

void Watch::clear() {
  polls_.clear();
  std::fill(ready_.begin(), ready_.end(), 0);
}

void Watch::add(int fd, int events) {
  if (fd >= 0) polls_.push_back({.fd = fd, .events = static_cast<short>(events), .revents = 0});
}

bool Watch::wait(int timeout) {
  const int count = ::poll(polls_.data(), polls_.size(), timeout);
  if (count < 0) return errno == EINTR;
  for (const auto& poll : polls_) {
    const auto fd = static_cast<std::size_t>(poll.fd);
    if (poll.revents == 0) continue;
    if (ready_.size() <= fd) ready_.resize(fd + 1);
    ready_[fd] = 1;
  }
  return true;
}

}  // namespace cove::init
