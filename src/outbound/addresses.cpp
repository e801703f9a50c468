#include "outbound/addresses.hpp"

#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace cove::outbound {
namespace {

namespace ip = boost::asio::ip;

struct Range4 {
  std::uint32_t first;
  unsigned bits;
};

constexpr std::uint32_t quad(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  return (a << 24) | (b << 16) | (c << 8) | d;
}

// What IANA lists as not globally reachable, multicast, reserved, and one address that a cloud took from the public's.
constexpr auto kNotPublic4 = std::to_array<Range4>({
    {quad(0, 0, 0, 0), 8},
    {quad(10, 0, 0, 0), 8},
    {quad(100, 64, 0, 0), 10},  // shared by carriers; 100.100.100.200 is a metadata service
    {quad(127, 0, 0, 0), 8},
    {quad(168, 63, 129, 16), 32},  // a metadata service
    {quad(169, 254, 0, 0), 16},
    {quad(172, 16, 0, 0), 12},
    {quad(192, 0, 0, 0), 24},
    {quad(192, 0, 2, 0), 24},
    {quad(192, 88, 99, 0), 24},
    {quad(192, 168, 0, 0), 16},
    {quad(198, 18, 0, 0), 15},
    {quad(198, 51, 100, 0), 24},
    {quad(203, 0, 113, 0), 24},
    {quad(224, 0, 0, 0), 3},  // multicast, reserved, broadcast
});

struct Range6 {
  std::array<unsigned char, 4> first;
  unsigned bits;
};

// Of the global unicast range, what carries an IPv4 address or belongs to documents.
constexpr auto kNotPublic6 = std::to_array<Range6>({
    {{0x20, 0x01}, 23},
    {{0x20, 0x01, 0x0d, 0xb8}, 32},
    {{0x20, 0x02}, 16},
    {{0x3f, 0xff}, 20},
});

bool within(const ip::address_v6::bytes_type& address, std::array<unsigned char, 4> first, unsigned bits) {
  for (unsigned bit = 0; bit < bits; ++bit) {
    const auto byte = bit / 8;
    const auto mask = static_cast<unsigned char>(0x80U >> (bit % 8));
    if ((address[byte] & mask) != (first[byte] & mask)) return false;
  }
  return true;
}

bool is_public4(std::uint32_t address) {
  return std::ranges::none_of(
      kNotPublic4, [address](const Range4& range) { return ((address ^ range.first) >> (32 - range.bits)) == 0; });
}

// Only the global unicast range, so that local, link-local, multicast, mapped and translated forms are out by
// themselves.
bool is_public6(const ip::address_v6::bytes_type& address) {
  return within(address, {0x20}, 3) && std::ranges::none_of(kNotPublic6, [&address](const Range6& range) {
           return within(address, range.first, range.bits);
         });
}

Network network6(std::array<unsigned char, 4> first, unsigned bits) {
  ip::address_v6::bytes_type bytes{};
  std::ranges::copy(first, bytes.begin());
  return Network{.address = ip::address_v6(bytes), .prefix = static_cast<int>(bits)};
}

std::vector<ip::address> own_addresses() {
  std::vector<ip::address> own;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return own;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const auto* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family == AF_INET) {
      sockaddr_in in{};
      std::memcpy(&in, entry->ifa_addr, sizeof in);
      own.emplace_back(ip::address_v4(ntohl(in.sin_addr.s_addr)));
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 in{};
      std::memcpy(&in, entry->ifa_addr, sizeof in);
      ip::address_v6::bytes_type bytes{};
      std::memcpy(bytes.data(), &in.sin6_addr, bytes.size());
      own.emplace_back(ip::address_v6(bytes));
    }
  }
  return own;
}

}  // namespace

bool is_public(const ip::address& address) {
  return address.is_v4() ? is_public4(address.to_v4().to_uint()) : is_public6(address.to_v6().to_bytes());
}

std::vector<Network> public_networks() {
  std::vector<Network> holes;
  for (const auto& range : kNotPublic4)
    holes.push_back({.address = ip::address_v4(range.first), .prefix = static_cast<int>(range.bits)});
  auto networks = without({.address = ip::address_v4(), .prefix = 0}, holes);
  holes.clear();
  for (const auto& range : kNotPublic6) holes.push_back(network6(range.first, range.bits));
  for (auto& network : without(network6({0x20}, 3), holes)) networks.push_back(std::move(network));
  return networks;
}

bool is_own(const ip::address& address) {
  const auto own = own_addresses();
  return std::ranges::find(own, address) != own.end();
}

bool has_own(const Network& network) {
  return std::ranges::any_of(own_addresses(), [&network](const ip::address& own) { return network.contains(own); });
}

Result<HostPort> parse_host_port(std::string_view text) {
  const auto colon = text.rfind(':');
  const bool has_port =
      colon != std::string_view::npos && colon + 1 < text.size() && text.find(']', colon) == std::string_view::npos;
  const auto url = parse_url(fmt::format("http://{}/", text));
  if (!has_port || !url || url->target != "/" || text.find('/') != std::string_view::npos)
    return fail(Errc::invalid, fmt::format("'{}' is not a host and port such as index.example.org:443", text));
  return HostPort{.host = url->host, .port = url->port};
}

bool Reach::lists(const Url& url) const {
  return std::ranges::find(allowed, HostPort{.host = url.host, .port = url.port}) != allowed.end();
}

std::vector<ip::address> dialable(const Url& url, const Reach& reach, const std::vector<ip::address>& found) {
  if (reach.lists(url)) return found;
  const auto own = own_addresses();
  std::vector<ip::address> kept;
  std::ranges::copy_if(found, std::back_inserter(kept), [&own](const ip::address& address) {
    return is_public(address) && std::ranges::find(own, address) == own.end();
  });
  return kept;
}

}  // namespace cove::outbound
