#include "sys/netlink.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace cove::sys {
namespace {

constexpr std::size_t kBuffer = 64U << 10;

std::span<const std::byte> payload_of(const nlmsghdr* header) {
  return {static_cast<const std::byte*>(NLMSG_DATA(header)), header->nlmsg_len - NLMSG_HDRLEN};
}

}  // namespace

void NetlinkMessage::grow(std::span<const std::byte> value) {
  bytes_.insert(bytes_.end(), value.begin(), value.end());
  bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  set_length();
}

void NetlinkMessage::set_length() {
  const auto length = static_cast<std::uint32_t>(bytes_.size() - last_);
  std::memcpy(bytes_.data() + last_ + offsetof(nlmsghdr, nlmsg_len), &length, sizeof length);
}

void NetlinkMessage::begin(std::uint16_t type, std::uint16_t flags, std::span<const std::byte> header) {
  last_ = bytes_.size();
  const nlmsghdr head{
      .nlmsg_len = 0, .nlmsg_type = type, .nlmsg_flags = flags, .nlmsg_seq = ++sequence_, .nlmsg_pid = 0};
  grow(std::as_bytes(std::span(&head, 1)));
  grow(header);
  if ((flags & NLM_F_ACK) != 0) ++acknowledgements_;
}

void NetlinkMessage::put(std::uint16_t type, std::span<const std::byte> value) {
  const nlattr head{.nla_len = static_cast<std::uint16_t>(NLA_HDRLEN + value.size()), .nla_type = type};
  grow(std::as_bytes(std::span(&head, 1)));
  grow(value);
}

void NetlinkMessage::put_text(std::uint16_t type, std::string_view value) {
  std::vector<char> text(value.begin(), value.end());
  text.push_back('\0');
  put(type, std::as_bytes(std::span(text)));
}

void NetlinkMessage::put_u32(std::uint16_t type, std::uint32_t value) {
  put(type, std::as_bytes(std::span(&value, 1)));
}

void NetlinkMessage::put_be32(std::uint16_t type, std::uint32_t value) {
  put_u32(type, htonl(value));
}

NetlinkMessage::Nest::Nest(NetlinkMessage& message, std::uint16_t type)
    : message_(message), at_(message.bytes_.size()) {
  message_.put(type | NLA_F_NESTED, {});
}

NetlinkMessage::Nest::~Nest() {
  const auto length = static_cast<std::uint16_t>(message_.bytes_.size() - at_);
  std::memcpy(message_.bytes_.data() + at_ + offsetof(nlattr, nla_len), &length, sizeof length);
}

Result<NetlinkSocket> NetlinkSocket::open(int protocol) {
  UniqueFd socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (!socket) return fail_errno(errno, "open a netlink socket");
  // Acknowledgements repeat the request unless told not to; those of a long batch would not fit.
  const int on = 1;
  ::setsockopt(socket.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
  const int size = 4 << 20;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
  return NetlinkSocket(std::move(socket));
}

Result<> NetlinkSocket::transact(const NetlinkMessage& message, std::string_view what) {
  const auto bytes = message.bytes();
  if (::send(socket_.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail_errno(errno, "{}", what);
  std::array<std::byte, kBuffer> buffer;
  std::size_t left = message.acknowledgements();
  int refused = 0;
  while (left > 0) {
    const auto n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_errno(errno, "{}", what);
    auto rest = static_cast<unsigned>(n);
    for (const auto* one = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(one, rest);
         one = NLMSG_NEXT(one, rest)) {
      if (one->nlmsg_type != NLMSG_ERROR) continue;
      const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(one));
      if (error->error == 0) {
        left -= left > 0 ? 1 : 0;
        continue;
      }
      // A batch is refused as a whole: what comes after the first refusal may not be acknowledged any more.
      refused = -error->error;
      left = 0;
    }
  }
  return refused != 0 ? fail_errno(refused, "{}", what) : Result<>();
}

Result<> NetlinkSocket::dump(const NetlinkMessage& message,
                             const std::function<void(std::span<const std::byte>)>& each) {
  const auto bytes = message.bytes();
  if (::send(socket_.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail_errno(errno, "ask by netlink");
  std::array<std::byte, kBuffer> buffer;
  while (true) {
    const auto n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail_errno(errno, "read from netlink");
    auto rest = static_cast<unsigned>(n);
    for (const auto* one = reinterpret_cast<const nlmsghdr*>(buffer.data()); NLMSG_OK(one, rest);
         one = NLMSG_NEXT(one, rest)) {
      if (one->nlmsg_type == NLMSG_DONE) return {};
      if (one->nlmsg_type == NLMSG_ERROR)
        return fail_errno(-static_cast<const nlmsgerr*>(NLMSG_DATA(one))->error, "ask by netlink");
      each(payload_of(one));
    }
  }
}

}  // namespace cove::sys
