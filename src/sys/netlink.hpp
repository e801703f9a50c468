#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::sys {

// Who made a route or a rule: a number that no routing program has.
inline constexpr std::uint8_t kMadeByUs = 199;
// Of AF_INET and AF_INET6.
constexpr std::size_t address_size(std::uint8_t family) {
  return family == 2 ? 4 : 16;
}

// One netlink message, or several in a row, as bytes.
class NetlinkMessage {
 public:
  // Begins a message; `header` is the fixed part that follows nlmsghdr.
  void begin(std::uint16_t type, std::uint16_t flags, std::span<const std::byte> header);
  template <typename Header>
  void begin(std::uint16_t type, std::uint16_t flags, const Header& header) {
    begin(type, flags, std::as_bytes(std::span(&header, 1)));
  }
  void put(std::uint16_t type, std::span<const std::byte> value);
  void put_text(std::uint16_t type, std::string_view value);  // with its 0
  void put_u32(std::uint16_t type, std::uint32_t value);      // in the machine's order
  void put_be32(std::uint16_t type, std::uint32_t value);
  // Attributes that are put before the returned nest ends stand inside of it.
  class Nest {
   public:
    Nest(NetlinkMessage& message, std::uint16_t type);
    Nest(const Nest&) = delete;
    Nest& operator=(const Nest&) = delete;
    ~Nest();

   private:
    NetlinkMessage& message_;
    std::size_t at_;
  };
  [[nodiscard]] Nest nest(std::uint16_t type) { return {*this, type}; }

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // How many messages ask for an acknowledgement.
  [[nodiscard]] std::size_t acknowledgements() const { return acknowledgements_; }

 private:
  void grow(std::span<const std::byte> value);
  void set_length();

  std::vector<std::byte> bytes_;
  std::size_t last_ = 0;  // where the message begins that is being written
  std::uint32_t sequence_ = 0;
  std::size_t acknowledgements_ = 0;
};

class NetlinkSocket {
 public:
  // Of the network namespace that the caller is in.
  static Result<NetlinkSocket> open(int protocol);

  // Sends, and waits for every acknowledgement. The first refusal is the error, with its errno.
  Result<> transact(const NetlinkMessage& message, std::string_view what);
  // Sends one request with NLM_F_DUMP and calls `each` with the payload of every answer.
  Result<> dump(const NetlinkMessage& message, const std::function<void(std::span<const std::byte>)>& each);

 private:
  explicit NetlinkSocket(UniqueFd socket) : socket_(std::move(socket)) {}
  UniqueFd socket_;
};

}  // namespace cove::sys
