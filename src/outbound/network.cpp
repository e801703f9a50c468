#include "outbound/network.hpp"

#include <array>
#include <charconv>

namespace cove::outbound {
namespace {

namespace ip = boost::asio::ip;

int width_of(const ip::address& address) {
  return address.is_v4() ? 32 : 128;
}

bool bit_of(const ip::address& address, int bit) {
  const auto at = static_cast<std::size_t>(bit / 8);
  const auto byte = address.is_v4() ? address.to_v4().to_bytes().at(at) : address.to_v6().to_bytes().at(at);
  return (byte >> (7 - bit % 8) & 1) != 0;
}

ip::address with_bit(const ip::address& address, int bit) {
  const auto at = static_cast<std::size_t>(bit / 8);
  const auto mask = static_cast<unsigned char>(1U << (7 - bit % 8));
  if (address.is_v4()) {
    auto bytes = address.to_v4().to_bytes();
    bytes.at(at) |= mask;
    return ip::address_v4(bytes);
  }
  auto bytes = address.to_v6().to_bytes();
  bytes.at(at) |= mask;
  return ip::address_v6(bytes);
}

bool same_bits(const ip::address& a, const ip::address& b, int count) {
  for (int bit = 0; bit < count; ++bit) {
    if (bit_of(a, bit) != bit_of(b, bit)) return false;
  }
  return true;
}

ip::address masked(const ip::address& address, int prefix) {
  ip::address result = address.is_v4() ? ip::address(ip::address_v4()) : ip::address(ip::address_v6());
  for (int bit = 0; bit < prefix; ++bit) {
    if (bit_of(address, bit)) result = with_bit(result, bit);
  }
  return result;
}

}  // namespace

bool Network::contains(const ip::address& other) const {
  if (other.is_v6() && other.to_v6().is_v4_mapped())
    return contains(ip::address(ip::make_address_v4(ip::v4_mapped, other.to_v6())));
  return address.is_v4() == other.is_v4() && same_bits(address, other, prefix);
}

bool Network::contains(const Network& other) const {
  return other.prefix >= prefix && contains(other.address);
}

Result<Network> parse_network(std::string_view text) {
  const auto slash = text.find('/');
  const auto host = std::string(text.substr(0, slash));
  boost::system::error_code wrong;
  const auto address = ip::make_address(host, wrong);
  // inet_pton takes one spelling of IPv4 and several of IPv6; a scope is no part of a network.
  if (wrong || host.find('%') != std::string::npos)
    return fail(Errc::invalid, fmt::format("'{}' is not an IPv4 or IPv6 address", host));
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return fail(Errc::invalid, fmt::format("'{}' is an IPv4 address written as IPv6; write it as IPv4", host));
  Network network{.address = address, .prefix = width_of(address)};
  if (slash == std::string_view::npos) return network;
  const auto digits = text.substr(slash + 1);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), network.prefix);
  if (failed != std::errc{} || end != digits.data() + digits.size() || network.prefix < 0 || digits.front() == '-' ||
      network.prefix > width_of(address))
    return fail(Errc::invalid, fmt::format("'{}' is not a prefix of 0 to {}", digits, width_of(address)));
  network.address = masked(address, network.prefix);
  if (network.address != address)
    return fail(Errc::invalid, fmt::format("'{}' has bits below its prefix; {} has none", text, text_of(network)));
  return network;
}

std::string text_of(const Network& network) {
  if (network.prefix == width_of(network.address)) return network.address.to_string();
  return fmt::format("{}/{}", network.address.to_string(), network.prefix);
}

std::vector<Network> without(const Network& network, std::span<const Network> holes) {
  bool touched = false;
  for (const auto& hole : holes) {
    if (hole.contains(network)) return {};
    touched = touched || network.contains(hole);
  }
  if (!touched) return {network};
  const Network low{.address = network.address, .prefix = network.prefix + 1};
  const Network high{.address = with_bit(network.address, network.prefix), .prefix = network.prefix + 1};
  auto left = without(low, holes);
  for (auto& part : without(high, holes)) left.push_back(std::move(part));
  return left;
}

}  // namespace cove::outbound
