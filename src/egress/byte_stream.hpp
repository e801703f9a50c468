#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <span>
#include <string_view>

#include "async/task.hpp"

namespace cove::egress {

// The bytes of a connection, as they are or out of TLS.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Nothing: the end, or a failure.
  virtual async::Task<std::size_t> read_some(std::span<char> into) = 0;
  // All of it. False: the other side is gone. `bytes` must stay until it is done.
  virtual async::Task<bool> write(std::string_view bytes) = 0;
  // Nothing more will be written.
  virtual async::Task<> end() = 0;
};

// Over a socket that somebody else owns.
class SocketStream final : public ByteStream {
 public:
  explicit SocketStream(boost::asio::ip::tcp::socket& socket) : socket_(socket) {}
  async::Task<std::size_t> read_some(std::span<char> into) override;
  async::Task<bool> write(std::string_view bytes) override;
  async::Task<> end() override;

 private:
  boost::asio::ip::tcp::socket& socket_;
};

}  // namespace cove::egress
