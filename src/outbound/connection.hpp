#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "outbound/url.hpp"

namespace boost::asio::ssl {
class context;
}

namespace cove::outbound {

// Bytes to and from the server of one URL, plain or over TLS. For one coroutine; close() may come from another.
// All that can fail is Errc::unavailable, with ETIMEDOUT after `until`.
class Connection {
 public:
  Connection(boost::asio::any_io_executor executor, Url url, std::chrono::steady_clock::time_point until);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // Takes the first of the addresses that answers.
  async::Task<Result<>> connect(std::vector<boost::asio::ip::address> addresses);
  // TLS from here on. The error says what is wrong with the certificate.
  async::Task<Result<>> secure(boost::asio::ssl::context& context);
  // Succeeds too when the other side closes before it has read everything: its answer is still worth hearing.
  async::Task<Result<>> write(std::string bytes);
  // 0: the end. `into` must outlive the call.
  async::Task<Result<std::size_t>> read_some(std::span<char> into);

  // Ends what is under way, and the connection.
  void close();

  // "host:443: what went wrong"
  [[nodiscard]] tl::unexpected<Error> broken(const boost::system::error_code& failed) const;

 private:
  struct Line;
  class Tls;

  // Closes the socket at this time; what fails after it is late.
  void expire_at(std::chrono::steady_clock::time_point time);

  Url url_;
  std::chrono::steady_clock::time_point until_;
  std::shared_ptr<Line> line_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace cove::outbound
