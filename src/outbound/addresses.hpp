#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "outbound/url.hpp"

namespace cove::outbound {

// Nothing private, local, link-local, multicast, reserved or a cloud's metadata service, and no IPv6 address that
// carries an IPv4 one.
bool is_public(const boost::asio::ip::address& address);

// One place that the operator allows by name, whatever its address is.
struct Place {
  std::string host;  // as in Url
  std::uint16_t port = 0;
  bool operator==(const Place&) const = default;
};
// "index.internal:8080", "10.0.0.5:80", "[fd00::5]:443".
Result<Place> parse_place(std::string_view text);

// Where requests may go: everywhere public, and to these places.
struct Reach {
  std::vector<Place> places;

  [[nodiscard]] bool lists(const Url& url) const;
};

// Of the addresses that `url` resolved to, those that may be dialled: all when the place is listed, else the public
// ones that are not this machine's own.
std::vector<boost::asio::ip::address> dialable(const Url& url, const Reach& reach,
                                               const std::vector<boost::asio::ip::address>& found);

}  // namespace cove::outbound
