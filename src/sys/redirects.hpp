#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "base/result.hpp"

namespace cove::sys {

// TCP connections to these addresses and ports go to `kRelayPort` of the loopback address instead.
struct Redirect {
  std::uint8_t family = 0;  // AF_INET or AF_INET6
  std::uint8_t prefix = 0;
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 65535;
  std::array<std::uint8_t, 16> address = {};  // of IPv4 the first four
};

// Below 1024: nothing without capabilities can take them.
inline constexpr std::uint16_t kRelayPort = 1008;
inline constexpr std::uint16_t kDnsPort = 53;

enum class DnsRedirect : std::uint8_t {
  no,
  yes
};  // UDP to port 53 of any address goes to port 53 of the loopback address

// Replaces the nftables rules of the caller's network namespace in one transaction: either all of them hold or those
// before. What is neither redirected nor for the loopback address itself is rejected as unreachable.
Result<> set_redirects(std::span<const Redirect> redirects, DnsRedirect dns);
// No rules at all.
Result<> remove_redirects();

}  // namespace cove::sys
