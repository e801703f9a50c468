#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "outbound/network.hpp"
#include "outbound/url.hpp"

namespace cove::outbound {

// False for private, loopback, link-local, multicast and reserved addresses, for a cloud's metadata service, and for
// IPv6 addresses that embed an IPv4 one.
bool is_public(const boost::asio::ip::address& address);
// The same as networks: together they hold every public address and no other.
std::vector<Network> public_networks();
// Whether it is an address of this machine now: it may be a public one, and what listens on it need not be meant for
// everybody.
bool is_own(const boost::asio::ip::address& address);
// Whether one of this machine's addresses is in it.
bool has_own(const Network& network);

// A host that the operator allows by name, whatever its address is.
struct HostPort {
  std::string host;  // as in Url
  std::uint16_t port = 0;
  bool operator==(const HostPort&) const = default;
};
// "index.internal:8080", "10.0.0.5:80", "[fd00::5]:443".
Result<HostPort> parse_host_port(std::string_view text);

// Where requests may go: to public addresses, and to the hosts that are listed.
struct Reach {
  std::vector<HostPort> allowed;

  [[nodiscard]] bool lists(const Url& url) const;
};

// Of the addresses that `url` resolved to, those that may be dialled: all if the host is listed, else the public
// ones that are not this machine's own.
std::vector<boost::asio::ip::address> dialable(const Url& url, const Reach& reach,
                                               const std::vector<boost::asio::ip::address>& found);

}  // namespace cove::outbound
