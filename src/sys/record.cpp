#include "sys/record.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace cove::sys {
namespace {

using Ancillary = std::array<char, CMSG_SPACE(kMaxRecordFds * sizeof(int))>;

}  // namespace

ssize_t send_record(int socket, std::span<const std::byte> record, std::span<const int> fds) noexcept {
  if (fds.size() > kMaxRecordFds) {
    errno = EINVAL;
    return -1;
  }
  iovec data{.iov_base = const_cast<std::byte*>(record.data()), .iov_len = record.size()};
  alignas(cmsghdr) Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = ancillary.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    auto* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t receive_record(int socket, std::span<std::byte> record, std::vector<UniqueFd>& fds, Waiting waiting) {
  iovec data{.iov_base = record.data(), .iov_len = record.size()};
  alignas(cmsghdr) Ancillary ancillary{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();
  const auto size = ::recvmsg(socket, &message, (waiting == Waiting::yes ? 0 : MSG_DONTWAIT) | MSG_CMSG_CLOEXEC);
  const auto* header = size < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
    const auto count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return size;
}

ssize_t receive_record(int socket, std::span<std::byte> record, UniqueFd& fd) {
  std::vector<UniqueFd> fds;
  const auto size = receive_record(socket, record, fds);
  if (fds.size() == 1) fd = std::move(fds.front());
  return size;
}

}  // namespace cove::sys
