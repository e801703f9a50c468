#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "async/task.hpp"
#include "base/result.hpp"
#include "egress/byte_stream.hpp"

namespace cove::egress {

// TLS over a socket that somebody else owns and that outlives it. The handshake ends when the socket is closed.

// As the server of a client that has begun with `begun`.
async::Task<Result<std::shared_ptr<ByteStream>>> accept_tls(boost::asio::ip::tcp::socket& socket,
                                                            std::shared_ptr<boost::asio::ssl::context> context,
                                                            std::string begun);
// As a client of the server `name`, whose certificate is verified.
async::Task<Result<std::shared_ptr<ByteStream>>> connect_tls(boost::asio::ip::tcp::socket& socket,
                                                             std::shared_ptr<boost::asio::ssl::context> context,
                                                             std::string name);
// A client's context that trusts the certificates of this text (PEM).
Result<std::shared_ptr<boost::asio::ssl::context>> trusting(const std::string& certificates);

}  // namespace cove::egress
