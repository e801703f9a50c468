#pragma once

#include <boost/asio/ip/address_v4.hpp>
#include <cstdint>
#include <string_view>
#include <vector>

#include "egress/policy.hpp"

namespace cove::egress {

// Names are answered with addresses of 198.18.0.0/16, which mean nothing outside of one sandbox. So that a port that is
// not allowed for a name fails in the sandbox's own kernel, at once and as unreachable, that range is cut into sixteen
// blocks (/20): names whose allowed ports are the same share a block, and the kernel is told the ports of each block.
// Block 15 is for names that several rules with different ports match: there the kernel lets every port of those rules
// pass, and egress refuses the rest.
inline constexpr std::uint32_t kSyntheticBase = 0xC6120000;  // 198.18.0.0
inline constexpr int kBlockPrefix = 20;
inline constexpr std::uint32_t kBlockSize = 4096;
inline constexpr std::size_t kMixedBlock = 15;
// Denied names are answered with this one, which nothing routes.
inline constexpr std::uint32_t kUnroutedAddress = 0xC6130001;  // 198.19.0.1

// One line of what the sandbox's kernel lets pass to egress. Everything else is unreachable.
struct Opening {
  Network network;
  PortRange ports;
};

struct NetworkPlan {
  std::vector<Opening> openings;
  std::vector<Network> closed;  // exceptions from the openings: unreachable, whatever the port
  bool redirect_dns = false;    // UDP port 53 of any address is answered by our own DNS
};

// The same for the same policy, so that who answers DNS and who sets up the kernel agree.
NetworkPlan plan_network(const Policy& policy);
// The block for an allowed name.
std::size_t block_of(const Policy& policy, std::string_view canonical_name);

}  // namespace cove::egress
