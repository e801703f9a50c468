#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/udp.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "async/task.hpp"

namespace cove::egress {

class SandboxEgress;

// The name server of one sandbox. It asks nobody: an allowed name has a synthetic address, a denied one an address that
// nothing routes, so that connecting to it fails at once and says why; no name has anything but an IPv4 address.

// The answer to one message; "" when there is none.
std::string answer_lookup(SandboxEgress& egress, std::string_view message);

// The sockets must outlive the tasks.
async::Task<> serve_dns(std::shared_ptr<SandboxEgress> egress, boost::asio::ip::udp::socket& socket);
async::Task<> serve_dns_streams(std::shared_ptr<SandboxEgress> egress, boost::asio::ip::tcp::acceptor& acceptor);

}  // namespace cove::egress
