#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "async/task.hpp"
#include "base/result.hpp"

namespace cove::http {

// A TCP socket for one reader and one writer. Reads and writes are tried at once and waited for only when the kernel
// says so. Each wait has a watchdog, which closes the socket, so that there is one way for a wait to end.
class TimedSocket : public std::enable_shared_from_this<TimedSocket> {
 public:
  using Clock = std::chrono::steady_clock;
  using Buffers = std::array<boost::asio::const_buffer, 3>;

  TimedSocket(boost::asio::any_io_executor executor, boost::asio::ip::tcp::socket socket);

  // 0: the other side has no more to send. Errc::unavailable: it is gone, or `deadline` has passed.
  async::Task<Result<std::size_t>> receive(char* data, std::size_t size, Clock::time_point deadline);
  // Bytes that are there now: -1 with EAGAIN when there are none, 0 at the end or when the socket is closed.
  ssize_t receive_now(char* data, std::size_t size);
  // Returns when there is something to read, or the end.
  async::Task<Result<>> readable(Clock::time_point deadline);
  // Fails when the client took nothing at all for `patience`.
  async::Task<Result<>> write(Buffers buffers, std::chrono::milliseconds patience);
  // Lets other connections run after a fair share of bytes was moved on this one.
  async::Task<> give_way(std::size_t moved);

  // Calls `on_readable` once, when there is something to read, unless stop_watching() comes first.
  void watch(std::function<void()> on_readable);
  void stop_watching();

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  // The other side has said that it sends no more.
  [[nodiscard]] bool at_end() const { return at_end_; }
  void close();
  // Closes without sending what is still queued.
  void reset();
  // Says that nothing more will be sent.
  void finish_sending();
  // The socket itself, for a protocol that takes over. This one counts as closed from then on.
  boost::asio::ip::tcp::socket release() { return std::move(socket_); }

 private:
  struct Watchdog {
    explicit Watchdog(const boost::asio::any_io_executor& executor) : timer(executor) {}
    boost::asio::steady_timer timer;
    std::uint64_t generation = 0;
  };
  void arm_read(Clock::time_point deadline);
  void arm_write(int queued_before, std::chrono::milliseconds patience);
  static void disarm(Watchdog& watchdog);
  // Bytes that the client's side has not acknowledged; -1 when that cannot be told.
  [[nodiscard]] int queued() const;

  boost::asio::any_io_executor executor_;
  boost::asio::ip::tcp::socket socket_;
  Watchdog read_watchdog_;
  Watchdog write_watchdog_;
  boost::asio::cancellation_signal watch_cancellation_;
  std::uint64_t watch_generation_ = 0;
  bool watching_ = false;
  bool at_end_ = false;
  std::size_t unyielded_ = 0;  // bytes moved without giving way to others
};

// What reads and writes fail with when the other side is gone.
tl::unexpected<Error> client_is_gone();

}  // namespace cove::http
