#include "init/front.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace cove::init {
namespace {

constexpr std::size_t kCompactAt = 512U << 10;

}  // namespace

Front::Front(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0)
    listener_ = fd;
  else
    fd_ = fd;
}

void Front::disconnect() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
  inbox_ = {};
  outbox_.clear();
  sent_ = 0;
}

bool Front::accept_newest() {
  bool any = false;
  while (true) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return any;
    disconnect();
    fd_ = fd;
    any = true;
  }
}

void Front::say(wire::FrameType type, std::uint32_t process, std::string_view payload) {
  if (connected()) wire::append_frame(outbox_, type, process, payload);
}

void Front::flush() {
  while (connected() && sent_ < outbox_.size()) {
    const auto n = ::send(fd_, outbox_.data() + sent_, outbox_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      disconnect();
      return;
    }
    sent_ += static_cast<std::size_t>(n);
  }
  if (sent_ == outbox_.size() || sent_ > kCompactAt) {
    outbox_.erase(0, sent_);
    sent_ = 0;
  }
}

bool Front::read_some(char* scratch, std::size_t size) {
  if (!connected()) return false;
  // Plain recv: the kernel throws away any descriptors sent along (SECURITY.md E-17).
  const auto n = ::recv(fd_, scratch, size, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n <= 0) {
    disconnect();
    return false;
  }
  inbox_.append({scratch, static_cast<std::size_t>(n)});
  return true;
}

}  // namespace cove::init
