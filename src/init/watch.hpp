#pragma once

#include <poll.h>

#include <vector>

namespace cove::init {

// The descriptors of one round of the loop, and what poll(2) reported of each. Nothing is read that poll did not
// report: a system call that finds nothing costs the host as much as one that does, and accept4(2) even leaves a
// socket behind for the kernel to free later.
class Watch {
 public:
  void clear();
  // Nothing for a descriptor of -1.
  void add(int fd, int events);
  // False when poll(2) itself failed. `timeout` in milliseconds; -1: for ever.
  bool wait(int timeout);
  // Whether poll reported anything for it, an error or the other side's end included.
  [[nodiscard]] bool ready(int fd) const {
    return fd >= 0 && static_cast<std::size_t>(fd) < ready_.size() && ready_[static_cast<std::size_t>(fd)];
  }

 private:
  std::vector<pollfd> polls_;
  std::vector<char> ready_;  // by descriptor
};

}  // namespace cove::init
