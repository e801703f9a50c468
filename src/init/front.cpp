#include "init/front.hpp"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace cove::init {
namespace {

constexpr std::size_t kCompactAt = 512U << 10;
constexpr std::size_t kMaxDescriptors = 16;  // with one read

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
  for (const int fd : descriptors_) ::close(fd);
  descriptors_.clear();
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

void Front::send(wire::FrameType type, std::uint32_t process, std::string_view payload) {
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

bool Front::take_descriptors(int* fds, std::size_t count) {
  if (descriptors_.size() < count) return false;
  for (std::size_t i = 0; i < count; ++i) fds[i] = descriptors_[i];
  descriptors_.erase(descriptors_.begin(), descriptors_.begin() + static_cast<std::ptrdiff_t>(count));
  return true;
}

void Front::read_some(char* scratch, std::size_t size) {
  if (!connected()) return;
  // The front alone can reach this socket: what comes along is for us, an end of a process's pipe each.
  alignas(cmsghdr) char ancillary[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
  iovec data{.iov_base = scratch, .iov_len = size};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = ancillary;
  message.msg_controllen = sizeof ancillary;
  const auto n = ::recvmsg(fd_, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    disconnect();
    return;
  }
  if (const auto* header = CMSG_FIRSTHDR(&message);
      header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      ::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      descriptors_.push_back(fd);
    }
  }
  inbox_.append({scratch, static_cast<std::size_t>(n)});
}

}  // namespace cove::init
