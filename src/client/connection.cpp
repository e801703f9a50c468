#include "client/connection.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/error.hpp>
#include <memory>

namespace cove::client {
namespace {

constexpr std::chrono::seconds kConnectPatience{10};

// 0 when `fd` is ready, or the errno that ended the wait.
int wait_for(int fd, short events, const Waiting& waiting) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + waiting.patience;
  while (true) {
    std::array<pollfd, 2> polls{
        {{.fd = fd, .events = events, .revents = 0}, {.fd = waiting.interrupt_fd, .events = POLLIN, .revents = 0}}};
    int wait = -1;
    if (waiting.patience.count() > 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
      wait = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
    }
    const int ready = ::poll(polls.data(), polls.size(), wait);
    if (ready < 0 && errno != EINTR) return errno;
    if (ready > 0 && polls[1].revents != 0) return EINTR;
    if (ready > 0) return 0;
    if (ready == 0 && Clock::now() >= until) return ETIMEDOUT;
  }
}

boost::beast::error_code system_error(int number) {
  return {number, boost::system::system_category()};
}

Result<UniqueFd> try_one(const addrinfo& where, const Waiting& waiting) {
  UniqueFd fd(::socket(where.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "socket");
  if (::connect(fd.get(), where.ai_addr, where.ai_addrlen) != 0 && errno != EINPROGRESS)
    return fail_errno(errno, "connect");
  auto limited = waiting;
  limited.patience = kConnectPatience;
  if (const int failed = wait_for(fd.get(), POLLOUT, limited); failed != 0) return fail_errno(failed, "connect");
  int failed = 0;
  socklen_t size = sizeof failed;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size);
  if (failed != 0) return fail_errno(failed, "connect");
  const int on = 1;  // keystrokes must not wait for one another
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace

Result<Connection> Connection::open(const Address& address, const Waiting& waiting) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &found);
  if (failed != 0)
    return fail(Errc::unavailable, fmt::format("cannot reach {}: {}", address.url(), ::gai_strerror(failed)));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, ::freeaddrinfo);
  Result<UniqueFd> fd = fail(Errc::unavailable, "no address");
  for (const auto* where = found; where != nullptr && !fd; where = where->ai_next) {
    fd = try_one(*where, waiting);
    if (!fd && interrupted(fd.error())) return tl::unexpected<Error>(fd.error());
  }
  if (fd) return Connection(std::move(*fd), waiting);
  const int number = fd.error().sys_errno;
  const auto why =
      number == ECONNREFUSED ? std::string("is `cove serve` running?") : std::string(std::strerror(number));
  return tl::unexpected<Error>(Error{.code = Errc::unavailable,
                                     .message = fmt::format("cannot reach {}: {}", address.url(), why),
                                     .sys_errno = number});
}

bool Connection::stale() const {
  pollfd ready{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, 0) != 0;
}

Result<std::size_t> Connection::receive_now(char* data, std::size_t size) {
  while (true) {
    const auto n = ::recv(fd_.get(), data, size, 0);
    if (n > 0) return static_cast<std::size_t>(n);
    if (n == 0) return fail(Errc::unavailable, "the server closed the connection");
    if (errno == EAGAIN) return std::size_t{0};
    if (errno != EINTR) return fail_errno(errno, "the connection to the server broke");
  }
}

Result<std::size_t> Connection::send_now(const char* data, std::size_t size) {
  while (true) {
    const auto n = ::send(fd_.get(), data, size, MSG_NOSIGNAL);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN) return std::size_t{0};
    if (errno != EINTR) return fail_errno(errno, "the connection to the server broke");
  }
}

Result<> Connection::send_all(std::string_view bytes) {
  while (!bytes.empty()) {
    boost::beast::error_code failed;
    const auto n = transmit(bytes.data(), bytes.size(), failed);
    if (failed) return fail_errno(failed.value(), "send to the server");
    bytes.remove_prefix(n);
  }
  return {};
}

std::size_t Connection::receive(char* data, std::size_t size, boost::beast::error_code& failed) {
  while (true) {
    const auto n = ::recv(fd_.get(), data, size, 0);
    if (n > 0) {
      failed = {};
      return static_cast<std::size_t>(n);
    }
    if (n == 0) {
      failed = boost::asio::error::eof;
      return 0;
    }
    int number = errno;
    if (number == EAGAIN) number = wait_for(fd_.get(), POLLIN, waiting_);
    if (number != 0) {  // never recv's own EINTR: the socket does not block
      failed = system_error(number);
      return 0;
    }
  }
}

std::size_t Connection::transmit(const char* data, std::size_t size, boost::beast::error_code& failed) {
  while (true) {
    const auto n = ::send(fd_.get(), data, size, MSG_NOSIGNAL);
    if (n >= 0) {
      failed = {};
      return static_cast<std::size_t>(n);
    }
    int number = errno;
    if (number == EAGAIN) number = wait_for(fd_.get(), POLLOUT, waiting_);
    if (number != 0) {
      failed = system_error(number);
      return 0;
    }
  }
}

}  // namespace cove::client
