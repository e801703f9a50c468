#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/result.hpp"

namespace cove::wire {

// What the keeper is told about the network of one sandbox (KeeperVerb::network), and what comes back. Of fixed size,
// as everything the keeper reads.

enum class NetworkKind : std::uint8_t { opening, closed };

struct NetworkTarget {
  std::uint8_t family = 0;  // 4 or 6
  std::uint8_t prefix = 0;
  NetworkKind kind{};
  std::uint8_t reserved = 0;
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 65535;
  std::array<std::uint8_t, 16> address = {};
};

inline constexpr std::size_t kMaxNetworkTargets = 1024;
// Where the proxy listens, on the sandbox's loopback.
inline constexpr std::uint16_t kProxyPort = 3128;

enum class NetworkSockets : std::uint32_t { none, wanted };
enum class NetworkDns : std::uint32_t { own_address, every_address };

// In a memfd. No targets and no sockets: the sandbox has no way out any more.
struct NetworkOrder {
  std::uint32_t count = 0;
  NetworkSockets sockets{};
  NetworkDns dns{};
  std::uint32_t reserved = 0;
  std::array<NetworkTarget, kMaxNetworkTargets> targets = {};
};

// The descriptors beside it, in this order: relay over IPv4 and IPv6 (left out where the kernel has none), DNS over UDP
// and TCP, proxy (left out where its port is taken).
struct NetworkAnswer {
  std::uint32_t done = 0;
  std::uint32_t has_relay6 = 0;
  std::uint32_t has_proxy = 0;
  std::int32_t sys_errno = 0;
  Errc code = Errc::io;
  char message[200] = {};
};

}  // namespace cove::wire
