#include "http/server.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <unordered_map>
#include <unordered_set>

#include "async/deadline.hpp"
#include "async/signal.hpp"
#include "async/task_group.hpp"
#include "base/unique_fd.hpp"
#include "http/connection.hpp"

namespace cove::http {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr int kAcceptsPerTurn = 64;
constexpr std::chrono::milliseconds kBackOff{50};
constexpr std::chrono::minutes kSayFullEvery{1};

constexpr std::string_view kFull =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 94\r\nRetry-After: 1\r\n"
    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    "{\"error\": \"too many connections\", \"code\": \"unavailable\", \"requestId\": \"req_not_even_accepted\"}";
constexpr std::string_view kFullBody = kFull.substr(kFull.find("\r\n\r\n") + 4);
static_assert(kFullBody.size() == 94);

UniqueFd spare_descriptor() {
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

UniqueFd accept_one(int listener) {
  return UniqueFd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

}  // namespace

class Server::Impl : public std::enable_shared_from_this<Server::Impl> {
 public:
  Impl(asio::any_io_executor executor, ServerOptions options, const Router& router, Authenticator& authenticator,
       Hooks hooks)
      : shared_(std::make_shared<ServerShared>(ServerShared{.executor = executor,
                                                            .options = std::make_shared<const ServerOptions>(options),
                                                            .router = router,
                                                            .authenticator = authenticator,
                                                            .hooks = hooks,
                                                            .throttle = FailureThrottle(options.throttle),
                                                            .budget = Budget(options.held)})),
        group_(executor, std::move(hooks.on_escape)),
        arrived_(executor) {}

  static Task<> serve(std::shared_ptr<Impl> self, tcp::acceptor acceptor, std::shared_ptr<const Binding> binding) {
    acceptor.native_non_blocking(true);
    const Listening listening(*self, acceptor, binding.get());
    if (!std::exchange(self->revalidating_, true)) self->group_.spawn("revalidate", revalidate(self));
    // Held back for the time when there are no descriptors left: without one, a connection that waits can be neither
    // taken nor refused, and its client would hang.
    auto spare = spare_descriptor();
    while (!self->stopping_) {
      auto [ec] = co_await acceptor.async_wait(tcp::acceptor::wait_read, asio::as_tuple(asio::use_awaitable));
      if (self->stopping_ || !acceptor.is_open()) break;
      if (!ec) {
        const bool more = self->accept_some(acceptor, binding, spare);
        if (more) continue;
      }
      co_await async::sleep_for(kBackOff);
    }
  }

  void reload(ServerOptions options) {
    shared_->budget.set_limits(options.held);
    shared_->options = std::make_shared<const ServerOptions>(std::move(options));
  }

  void drain() {
    shared_->draining = true;
    for (auto* connection : connections_) connection->close_if_idle();
  }

  [[nodiscard]] std::size_t connections() const { return connections_.size(); }
  [[nodiscard]] const Counts& counts() const { return shared_->counts; }
  [[nodiscard]] Budget& budget() { return shared_->budget; }

  void cancel() {
    stopping_ = true;
    for (const auto& [acceptor, binding] : acceptors_) {
      boost::system::error_code ec;
      acceptor->close(ec);
    }
    group_.cancel();
  }

  void end(const Binding* binding) {
    for (const auto& [acceptor, bound_to] : acceptors_) {
      boost::system::error_code ec;
      if (bound_to == binding) acceptor->close(ec);
    }
    const std::vector<Connection*> now(connections_.begin(), connections_.end());
    for (auto* connection : now) {
      if (connection->binding() == binding) connection->cut();
    }
  }

  static Task<> stop(std::shared_ptr<Impl> self) {
    self->cancel();
    co_await self->group_.join();
  }

 private:
  struct Listening {
    Listening(Impl& i, tcp::acceptor& a, const Binding* binding) : impl(i), acceptor(a) {
      impl.acceptors_.emplace(&acceptor, binding);
    }
    Listening(const Listening&) = delete;
    Listening& operator=(const Listening&) = delete;
    ~Listening() { impl.acceptors_.erase(&acceptor); }
    Impl& impl;
    tcp::acceptor& acceptor;
  };

  // A key may be revoked, or a token expire, while a request that it opened lasts.
  static Task<> revalidate(std::shared_ptr<Impl> self) {
    while (!self->stopping_) {
      while (self->connections_.empty()) co_await self->arrived_.wait();
      co_await async::sleep_for(self->shared_->options->revalidate_every);
      const std::vector<Connection*> now(self->connections_.begin(), self->connections_.end());
      for (auto* connection : now) connection->revalidate();
    }
  }

  // Who may be closed for a newcomer's sake, of this peer ("": of all); null when everybody is needed.
  [[nodiscard]] Connection* least_needed(const std::string& peer) const {
    const auto need = [](const Connection& connection) {
      if (connection.unknown()) return connection.idle() ? 0 : connection.serving() ? 3 : 1;
      return connection.idle() ? 2 : 3;
    };
    Connection* found = nullptr;
    int least = 3;
    for (auto* connection : connections_) {
      if (!peer.empty() && connection->peer_address() != peer) continue;
      const int needed = need(*connection);
      if (needed < least || (found != nullptr && needed == least && connection->since() < found->since())) {
        found = connection;
        least = needed;
      }
    }
    return found;
  }

  // False: there is none to be had.
  bool make_room(const std::string& peer, std::size_t limit) {
    if (auto* least = least_needed(peer)) {
      ++shared_->counts.evicted;
      least->cut();
      say_full(peer, limit, "the one needed least was closed");
      return true;
    }
    ++shared_->counts.refused;
    say_full(peer, limit, "a newcomer was refused");
    return false;
  }

  void say_full(const std::string& peer, std::size_t limit, std::string_view done) {
    const auto now = std::chrono::steady_clock::now();
    if (!shared_->hooks.warn || now < say_full_again_) return;
    say_full_again_ = now + kSayFullEvery;
    shared_->hooks.warn(fmt::format("connections full limit={} peer={}: {} evicted={} refused={}", limit,
                                    peer.empty() ? "-" : peer, done, shared_->counts.evicted, shared_->counts.refused));
  }

  // False: the kernel cannot give us more for now.
  bool accept_some(tcp::acceptor& acceptor, const std::shared_ptr<const Binding>& binding, UniqueFd& spare) {
    if (!spare) spare = spare_descriptor();
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      auto fd = accept_one(acceptor.native_handle());
      if (fd) {
        take(std::move(fd), acceptor.local_endpoint().protocol(), binding);
        continue;
      }
      switch (errno) {
        case EAGAIN:
          return true;
        case EMFILE:
        case ENFILE:
          spare.reset();
          fd = accept_one(acceptor.native_handle());
          fd.reset();
          spare = spare_descriptor();
          return false;
        case ENOBUFS:
        case ENOMEM:
          return false;
        default:
          continue;  // the connection's own trouble: accept(2) names a dozen
      }
    }
    return true;
  }

  void take(UniqueFd fd, const tcp& protocol, std::shared_ptr<const Binding> binding) {
    const auto& options = *shared_->options;
    if (connections_.size() >= options.max_connections && !make_room("", options.max_connections)) return refuse(fd);
    tcp::socket socket(shared_->executor);
    boost::system::error_code ec;
    socket.assign(protocol, fd.get(), ec);
    if (ec) return;
    const int raw = fd.release();
    const int on = 1;
    socket.set_option(tcp::no_delay(true), ec);
    ::setsockopt(raw, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    auto connection = std::make_shared<Connection>(shared_, std::move(socket), std::move(binding));
    const auto& peer = connection->peer_address();
    if (peer.empty()) return;  // reset before we came to it
    auto& of_peer = per_peer_[peer];
    if (options.max_per_peer > 0 && of_peer >= options.max_per_peer && !make_room(peer, options.max_per_peer)) {
      // The socket goes with the connection; the answer goes first.
      send_full(raw);
      return;
    }
    ++of_peer;
    connections_.insert(connection.get());
    arrived_.notify_all();
    group_.spawn("connection", run(std::make_unique<Seat>(shared_from_this(), std::move(connection))));
  }

  // A connection that is counted. Not a local of run(): a task may be cancelled before its first line.
  struct Seat {
    Seat(std::shared_ptr<Impl> i, std::shared_ptr<Connection> c) : impl(std::move(i)), connection(std::move(c)) {}
    Seat(const Seat&) = delete;
    Seat& operator=(const Seat&) = delete;
    ~Seat() {
      impl->connections_.erase(connection.get());
      const auto at = impl->per_peer_.find(connection->peer_address());
      if (at != impl->per_peer_.end() && --at->second == 0) impl->per_peer_.erase(at);
    }
    std::shared_ptr<Impl> impl;
    std::shared_ptr<Connection> connection;
  };

  static Task<> run(std::unique_ptr<Seat> seat) { co_await seat->connection->run(); }

  static void send_full(int fd) {
    ::send(fd, kFull.data(), kFull.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    ::shutdown(fd, SHUT_WR);
  }
  static void refuse(const UniqueFd& fd) { send_full(fd.get()); }

  std::shared_ptr<ServerShared> shared_;
  async::TaskGroup group_;
  std::unordered_map<tcp::acceptor*, const Binding*> acceptors_;
  std::unordered_set<Connection*> connections_;
  std::unordered_map<std::string, std::size_t> per_peer_;
  async::Signal arrived_;
  bool revalidating_ = false;
  std::chrono::steady_clock::time_point say_full_again_{};
  bool stopping_ = false;
};

Server::Server(asio::any_io_executor executor, ServerOptions options, const Router& router,
               Authenticator& authenticator, Hooks hooks)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(options), router, authenticator, std::move(hooks))) {}

Server::~Server() {
  impl_->cancel();
}

Task<> Server::serve(tcp::acceptor acceptor, std::shared_ptr<const Binding> binding) {
  return Impl::serve(impl_, std::move(acceptor), std::move(binding));
}

void Server::end(const std::shared_ptr<const Binding>& binding) {
  if (binding != nullptr) impl_->end(binding.get());
}

void Server::reload(ServerOptions options) {
  impl_->reload(std::move(options));
}

void Server::drain() {
  impl_->drain();
}

std::size_t Server::connections() const {
  return impl_->connections();
}

const Server::Counts& Server::counts() const {
  return impl_->counts();
}

Budget& Server::budget() {
  return impl_->budget();
}

Task<> Server::stop() {
  return Impl::stop(impl_);
}

}  // namespace cove::http
