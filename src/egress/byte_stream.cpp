#include "egress/byte_stream.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace cove::egress {
namespace {

constexpr auto kStreamTuple = boost::asio::as_tuple(boost::asio::use_awaitable);

}  // namespace

async::Task<std::size_t> SocketStream::read_some(std::span<char> into) {
  const auto [failed, size] =
      co_await socket_.async_read_some(boost::asio::buffer(into.data(), into.size()), kStreamTuple);
  co_return failed ? 0 : size;
}

async::Task<bool> SocketStream::write(std::string_view bytes) {
  const auto [failed, size] =
      co_await boost::asio::async_write(socket_, boost::asio::buffer(bytes.data(), bytes.size()), kStreamTuple);
  co_return !failed;
}

async::Task<> SocketStream::end() {
  boost::system::error_code ignored;
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
  co_return;
}

}  // namespace cove::egress
