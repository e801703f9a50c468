#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/error.hpp>
#include <chrono>
#include <cstddef>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "client/address.hpp"

namespace cove::client {

// What ends a wait early.
struct Waiting {
  int interrupt_fd = -1;                  // give up when readable (a signalfd, an eventfd); -1: none
  std::chrono::milliseconds patience{0};  // longest time without a single byte; 0: no limit
};

// Whether a failure is an interrupt by the user.
inline bool interrupted(const Error& error) {
  return error.sys_errno == EINTR;
}

// One TCP connection. Calls block in poll(), so that a signal, an interrupt or a timeout ends them. Beast's functions
// take it as a synchronous stream.
class Connection {
 public:
  // Errc::unavailable, with a sentence that says what to try, when nothing answers.
  static Result<Connection> open(const Address& address, const Waiting& waiting);

  [[nodiscard]] int fd() const { return fd_.get(); }
  void set_waiting(const Waiting& waiting) { waiting_ = waiting; }
  // Whether the server has closed the connection or sent unexpected data, so that it cannot be reused.
  [[nodiscard]] bool stale() const;
  // Reads without blocking; 0 when nothing is there. Errc::unavailable at the end.
  Result<std::size_t> receive_now(char* data, std::size_t size);
  // Sends without blocking; returns how much was sent.
  Result<std::size_t> send_now(const char* data, std::size_t size);
  Result<> send_all(std::string_view bytes);

  template <class Buffers>
  std::size_t read_some(const Buffers& buffers, boost::beast::error_code& failed) {
    for (auto it = boost::asio::buffer_sequence_begin(buffers); it != boost::asio::buffer_sequence_end(buffers); ++it) {
      const boost::asio::mutable_buffer piece(*it);
      if (piece.size() > 0) return receive(static_cast<char*>(piece.data()), piece.size(), failed);
    }
    failed = {};
    return 0;
  }
  template <class Buffers>
  std::size_t read_some(const Buffers& buffers) {
    boost::beast::error_code failed;
    const auto n = read_some(buffers, failed);
    if (failed) throw boost::beast::system_error(failed);
    return n;
  }
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers, boost::beast::error_code& failed) {
    for (auto it = boost::asio::buffer_sequence_begin(buffers); it != boost::asio::buffer_sequence_end(buffers); ++it) {
      const boost::asio::const_buffer piece(*it);
      if (piece.size() > 0) return transmit(static_cast<const char*>(piece.data()), piece.size(), failed);
    }
    failed = {};
    return 0;
  }
  template <class Buffers>
  std::size_t write_some(const Buffers& buffers) {
    boost::beast::error_code failed;
    const auto n = write_some(buffers, failed);
    if (failed) throw boost::beast::system_error(failed);
    return n;
  }

 private:
  explicit Connection(UniqueFd fd, const Waiting& waiting) : fd_(std::move(fd)), waiting_(waiting) {}
  std::size_t receive(char* data, std::size_t size, boost::beast::error_code& failed);
  std::size_t transmit(const char* data, std::size_t size, boost::beast::error_code& failed);

  UniqueFd fd_;
  Waiting waiting_;
};

}  // namespace cove::client
