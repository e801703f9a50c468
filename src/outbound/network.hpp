#pragma once

#include <boost/asio/ip/address.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::outbound {

struct Network {
  boost::asio::ip::address address;  // the bits below the prefix are 0; never an IPv4 address mapped into IPv6
  int prefix = 0;
  [[nodiscard]] bool contains(const boost::asio::ip::address& other) const;
  [[nodiscard]] bool contains(const Network& other) const;
  bool operator==(const Network&) const = default;
};

// "10.0.0.0/8", "2001:db8::/32", "192.0.2.7". The error says what is wrong: another spelling, bits below the prefix, an
// IPv4 address in IPv6.
Result<Network> parse_network(std::string_view text);
// Without the prefix if it is one address.
std::string text_of(const Network& network);
// What is left of a network without the holes, as few networks as possible, in order.
std::vector<Network> without(const Network& network, std::span<const Network> holes);

}  // namespace cove::outbound
