#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "wire/frame.hpp"

namespace cove::init {

// The socket to the front that drives this sandbox. Init starts either with a connected socket, and ends when it
// closes, or with a listening one: then fronts come and go, and the sandbox lives on between them.
class Front {
 public:
  explicit Front(int fd);

  // False: a sandbox that has lost its front cannot get another, and ends.
  [[nodiscard]] bool may_come_back() const { return listener_ >= 0; }
  [[nodiscard]] bool connected() const { return fd_ >= 0; }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] int listener() const { return listener_; }

  // Takes the newest connection that waits; the one before it is closed. True when there is a new one.
  bool accept_newest();

  // Dropped when nobody is connected: a new front is told the state of every process instead.
  void send(wire::FrameType type, std::uint32_t process, std::string_view payload);
  void flush();
  [[nodiscard]] std::size_t waiting() const { return outbox_.size() - sent_; }

  // Reads what there is, for next().
  void read_some(char* scratch, std::size_t size);
  std::optional<wire::Frame> next() { return inbox_.next(); }
  // Descriptors that came along, in the order they did. False when there are fewer; the rest is kept for who asks next.
  bool take_descriptors(int* fds, std::size_t count);
  void check() {
    if (inbox_.broken()) disconnect();
  }

 private:
  void disconnect();

  int listener_ = -1;
  int fd_ = -1;
  wire::FrameReader inbox_;
  std::vector<int> descriptors_;
  std::string outbox_;
  std::size_t sent_ = 0;
};

}  // namespace cove::init
