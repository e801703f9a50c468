#include "http/peer.hpp"

#include <algorithm>

namespace cove::http {
namespace {

namespace asio = boost::asio;

// An IPv4 client of an IPv6 listener is an IPv4 client.
asio::ip::address unmapped(const asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  return address;
}

std::string counted_as(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), std::uint8_t{0});
  return asio::ip::address_v6(bytes).to_string() + "/64";
}

}  // namespace

Peer peer_of(const asio::ip::tcp::socket& socket) {
  Peer peer;
  boost::system::error_code failed;
  if (const auto remote = socket.remote_endpoint(failed); !failed) {
    const auto address = unmapped(remote.address());
    const auto text = address.to_string();
    peer.endpoint = (address.is_v4() ? text : "[" + text + "]") + ":" + std::to_string(remote.port());
    peer.address = counted_as(address);
    peer.loopback = address.is_loopback();
  }
  if (const auto local = socket.local_endpoint(failed); !failed) {
    peer.local_address = unmapped(local.address()).to_string();
    peer.local_port = local.port();
  }
  return peer;
}

}  // namespace cove::http
