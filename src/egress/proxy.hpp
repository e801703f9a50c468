#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "async/task.hpp"

namespace cove::egress {

class SandboxEgress;

// The proxy on a sandbox's loopback, for programs that are told of one: CONNECT and http:// addresses of HTTP proxies,
// and SOCKS 5. Decides as the relay does. A request of the form `GET /` is answered by the proxy itself, with the
// policy of the sandbox and what was refused lately.
async::Task<> serve_proxy(std::shared_ptr<SandboxEgress> egress, boost::asio::ip::tcp::acceptor& acceptor);

}  // namespace cove::egress
