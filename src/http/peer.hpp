#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

namespace cove::http {

// The two ends of a connection. Empty where the socket has none any more.
struct Peer {
  std::string endpoint;   // "192.0.2.1:5000", "[2001:db8::1]:5000": for logs
  std::string address;    // what limits count by: an IPv4 address, or the /64 that one IPv6 client has
  bool loopback = false;  // the client runs on this machine
  std::string local_address;
  std::uint16_t local_port = 0;
};

Peer peer_of(const boost::asio::ip::tcp::socket& socket);

}  // namespace cove::http
