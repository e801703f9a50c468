#include "http/timed_socket.hpp"

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

namespace cove::http {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::size_t kFairShare = std::size_t{256} << 10;  // bytes one connection moves before others run

}  // namespace

tl::unexpected<Error> client_is_gone() {
  return fail(Errc::unavailable, "the client is gone");
}

TimedSocket::TimedSocket(asio::any_io_executor executor, tcp::socket socket)
    : executor_(std::move(executor)),
      socket_(std::move(socket)),
      read_watchdog_(executor_),
      write_watchdog_(executor_) {}

void TimedSocket::close() {
  boost::system::error_code ec;
  socket_.close(ec);
}

void TimedSocket::reset() {
  boost::system::error_code ec;
  socket_.set_option(asio::socket_base::linger(true, 0), ec);
  socket_.close(ec);
}

void TimedSocket::finish_sending() {
  boost::system::error_code ec;
  socket_.shutdown(tcp::socket::shutdown_send, ec);
}

// A timer that has fired may have its handler queued already when it is cancelled: the generation tells it that it is
// too late.
void TimedSocket::arm_read(Clock::time_point deadline) {
  const auto generation = ++read_watchdog_.generation;
  read_watchdog_.timer.expires_at(deadline);
  read_watchdog_.timer.async_wait([weak = weak_from_this(), generation](boost::system::error_code ec) {
    const auto self = weak.lock();
    if (!ec && self && self->read_watchdog_.generation == generation) self->close();
  });
}

void TimedSocket::arm_write(int queued_before, std::chrono::milliseconds patience) {
  const auto generation = ++write_watchdog_.generation;
  write_watchdog_.timer.expires_after(patience);
  write_watchdog_.timer.async_wait(
      [weak = weak_from_this(), generation, queued_before, patience](boost::system::error_code ec) {
        const auto self = weak.lock();
        if (ec || !self || self->write_watchdog_.generation != generation) return;
        // A slow client is not a dead one: the kernel calls the socket writable only when a third of a large buffer is
        // free, so ask whether the client took anything at all.
        const int queued_now = self->queued();
        if (queued_now >= 0 && queued_now < queued_before) return self->arm_write(queued_now, patience);
        self->reset();
      });
}

void TimedSocket::disarm(Watchdog& watchdog) {
  ++watchdog.generation;
  watchdog.timer.cancel();
}

int TimedSocket::queued() const {
  int bytes = 0;
  // native_handle() is not const in Asio, and does not change anything.
  auto& socket = const_cast<tcp::socket&>(socket_);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  if (!socket.is_open() || ::ioctl(socket.native_handle(), SIOCOUTQ, &bytes) != 0) return -1;
  return bytes;
}

ssize_t TimedSocket::receive_now(char* data, std::size_t size) {
  while (socket_.is_open() && !at_end_) {
    const auto count = ::recv(socket_.native_handle(), data, size, MSG_DONTWAIT);
    if (count > 0 || (count < 0 && errno == EAGAIN)) return count;
    if (count == 0) at_end_ = true;
    if (count < 0 && errno != EINTR) close();
  }
  return 0;
}

async::Task<Result<>> TimedSocket::readable(Clock::time_point deadline) {
  unyielded_ = 0;
  arm_read(deadline);
  auto [ec] = co_await socket_.async_wait(tcp::socket::wait_read, asio::as_tuple(asio::use_awaitable));
  disarm(read_watchdog_);
  if (!ec) co_return Result<>{};
  close();
  co_return client_is_gone();
}

async::Task<> TimedSocket::give_way(std::size_t moved) {
  unyielded_ += moved;
  if (unyielded_ < kFairShare) co_return;
  unyielded_ = 0;
  co_await asio::post(executor_, asio::use_awaitable);
}

async::Task<Result<std::size_t>> TimedSocket::receive(char* data, std::size_t size, Clock::time_point deadline) {
  for (;;) {
    const auto count = receive_now(data, size);
    if (count > 0) {
      co_await give_way(static_cast<std::size_t>(count));
      co_return static_cast<std::size_t>(count);
    }
    if (!socket_.is_open()) co_return client_is_gone();
    if (at_end_) co_return std::size_t{0};
    auto waited = co_await readable(deadline);
    if (!waited) co_return tl::unexpected<Error>(waited.error());
  }
}

async::Task<Result<>> TimedSocket::write(Buffers buffers, std::chrono::milliseconds patience) {
  std::size_t first = 0;
  for (;;) {
    while (first < buffers.size() && buffers[first].size() == 0) ++first;
    if (first == buffers.size()) co_return Result<>{};
    if (!socket_.is_open()) co_return client_is_gone();

    std::array<iovec, std::tuple_size_v<Buffers>> vectors{};
    for (std::size_t i = first; i < buffers.size(); ++i) {
      vectors[i - first].iov_base = const_cast<void*>(buffers[i].data());  // NOLINT: iovec serves both directions
      vectors[i - first].iov_len = buffers[i].size();
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = buffers.size() - first;
    const auto count = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) {
      auto rest = static_cast<std::size_t>(count);
      for (std::size_t i = first; i < buffers.size(); ++i) {
        const auto part = std::min(rest, buffers[i].size());
        buffers[i] += part;
        rest -= part;
      }
      co_await give_way(static_cast<std::size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      close();
      co_return client_is_gone();
    }
    unyielded_ = 0;
    arm_write(queued(), patience);
    auto [ec] = co_await socket_.async_wait(tcp::socket::wait_write, asio::as_tuple(asio::use_awaitable));
    disarm(write_watchdog_);
    if (ec) {
      close();
      co_return client_is_gone();
    }
  }
}

void TimedSocket::watch(std::function<void()> on_readable) {
  if (watching_ || at_end_ || !socket_.is_open()) return;
  watching_ = true;
  const auto generation = ++watch_generation_;
  auto handler = [weak = weak_from_this(), generation, call = std::move(on_readable)](boost::system::error_code ec) {
    const auto self = weak.lock();
    // Too late: by now somebody else reads from the socket, and bytes taken here would get out of order.
    if (!self || generation != self->watch_generation_) return;
    self->watching_ = false;
    if (!ec && self->socket_.is_open()) call();
  };
  socket_.async_wait(tcp::socket::wait_read,
                     asio::bind_cancellation_slot(watch_cancellation_.slot(), std::move(handler)));
}

void TimedSocket::stop_watching() {
  ++watch_generation_;
  if (watching_) watch_cancellation_.emit(asio::cancellation_type::all);
  watching_ = false;
}

}  // namespace cove::http
