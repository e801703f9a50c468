#include "sys/record.hpp"

#include <sys/socket.h>

#include <array>
#include <cstring>

namespace cove::sys {
namespace {

using Ancillary = std::array<char, CMSG_SPACE(sizeof(int))>;

msghdr message_of(iovec& data, Ancillary& ancillary) noexcept {
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();
  return message;
}

}  // namespace

ssize_t send_record(int socket, std::span<const std::byte> record, int fd) noexcept {
  iovec data{.iov_base = const_cast<std::byte*>(record.data()), .iov_len = record.size()};
  alignas(cmsghdr) Ancillary ancillary{};
  auto message = message_of(data, ancillary);
  if (fd < 0) {
    message.msg_controllen = 0;
  } else {
    auto* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL);
}

ssize_t receive_record(int socket, std::span<std::byte> record, UniqueFd& fd) noexcept {
  iovec data{.iov_base = record.data(), .iov_len = record.size()};
  alignas(cmsghdr) Ancillary ancillary{};
  auto message = message_of(data, ancillary);
  const auto size = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const auto* header = size < 0 ? nullptr : CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof received);
    fd.reset(received);
  }
  return size;
}

}  // namespace cove::sys
