#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>

#include "async/task.hpp"
#include "base/result.hpp"
#include "egress/flow.hpp"

namespace cove::egress {

class SandboxEgress;

// Takes connections as fast as the caps allow; the rest waits in the kernel's queue, in the sandbox's own namespace.
// Until the acceptor is closed, which must outlive the task.
async::Task<> accept_all(std::shared_ptr<SandboxEgress> egress, boost::asio::ip::tcp::acceptor& acceptor,
                         AuditKind kind,
                         std::function<async::Task<>(std::shared_ptr<SandboxEgress>, std::shared_ptr<Flow>)> serve);

// Connections that the sandbox's kernel redirected here: to synthetic addresses, and to those that are listed.
async::Task<> serve_relay(std::shared_ptr<SandboxEgress> egress, boost::asio::ip::tcp::acceptor& acceptor);

// What netfilter has written down of a redirected connection.
Result<boost::asio::ip::tcp::endpoint> original_destination(int socket);

}  // namespace cove::egress
