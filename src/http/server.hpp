#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/task.hpp"
#include "base/budget.hpp"
#include "http/access_log.hpp"
#include "http/auth.hpp"
#include "http/exchange.hpp"
#include "http/router.hpp"

namespace cove::http {

struct ServerOptions {
  std::size_t head_limit = 32 << 10;   // 431
  std::size_t target_limit = 8 << 10;  // 414
  std::size_t header_lines = 100;      // 431
  std::chrono::milliseconds head_timeout{10'000};
  std::chrono::milliseconds idle_timeout{60'000};       // between requests
  std::chrono::milliseconds body_idle_timeout{30'000};  // and the time a body may take before the rate counts
  std::uint64_t body_min_rate = 1024;                   // bytes per second that we wait for
  std::uint64_t whole_body_min_rate = 32 << 10;         // the same of a body that waits in memory for its end
  std::chrono::milliseconds write_timeout{30'000};      // in which a client must take something
  std::uint64_t discard_limit = std::uint64_t{256} << 20;
  std::chrono::milliseconds discard_timeout{120'000};  // for bodies nobody wants
  std::chrono::milliseconds linger_timeout{2'000};     // for the client to close after a last answer
  std::chrono::milliseconds websocket_idle_timeout{60'000};
  std::size_t websocket_message_limit = 1 << 20;
  // A newcomer above these takes the place of whoever is needed least: idle, without a key, oldest. 503 if there is
  // none.
  std::size_t max_connections = 4096;
  std::size_t max_per_peer = 0;  // 0: no limit
  // Bytes of bodies and answers in memory, of a tenant and of all; 0: no limit.
  Budget::Limits held;
  // Interval at which the credentials of long requests are checked again.
  std::chrono::milliseconds revalidate_every{500};
  bool check_host = true;
  // "name" (any port) or "name:port", besides 127.0.0.1, [::1], localhost and the address the client connected to,
  // which must come with our port or none.
  std::vector<std::string> allowed_hosts;
  // "https://console.example", besides the server's own. Only their pages get CORS headers.
  std::vector<std::string> allowed_origins;
  FailureThrottle::Options throttle;
  std::string challenge;                 // parameters of WWW-Authenticate on 401 and 403: where to get a token
  std::string scope_header = "X-Scope";  // names a scope, for routes with RouteOptions::scoped
  // What a client is told that names a scope other than that of the listener it came by: the same as of a scope that
  // does not exist.
  std::function<std::string(std::string_view scope)> unknown_scope = [](std::string_view scope) {
    return "not found: " + std::string(scope);
  };
};

// A listener that serves one scope: only routes with RouteOptions::scoped, and only for the scope's owner.
struct Binding {
  std::string scope;
  std::string tenant;  // "": every tenant has a scope of that name
};

// HTTP/1.1 on one thread. `router` and `authenticator` are borrowed for the server's life.
class Server {
 public:
  using AccessLog = std::function<void(const AccessRecord&)>;
  using OnEscape = std::function<void(std::string_view where, std::exception_ptr)>;
  struct Hooks {
    AccessLog access_log;
    OnEscape on_escape;  // an exception escaped a handler; the client got a 500 or was disconnected
    std::function<void(std::string_view)> warn;  // rate-limited warnings about limits that were reached
  };
  // Counts since the start.
  struct Counts {
    std::uint64_t refused = 0;  // connections, with 503
    std::uint64_t evicted = 0;  // connections, to make room for new ones
    std::uint64_t revoked = 0;  // requests, because their credentials became invalid
  };

  Server(boost::asio::any_io_executor executor, ServerOptions options, const Router& router,
         Authenticator& authenticator, Hooks hooks = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  // Accepts until stop(), cancellation, or end() of its binding. May be called for several acceptors.
  Task<> serve(boost::asio::ip::tcp::acceptor acceptor, std::shared_ptr<const Binding> binding = nullptr);
  // Stops accepting for this binding, and cuts the connections that came by it.
  void end(const std::shared_ptr<const Binding>& binding);
  // Applies to requests that begin from now on.
  void reload(ServerOptions options);
  // Every answer from now on is the last of its connection, and idle connections are closed; goes on accepting.
  void drain();
  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] const Counts& counts() const;
  // Memory of bodies and answers; also for handlers that keep a body longer than its request.
  [[nodiscard]] Budget& budget();
  // Ends accepting, cancels every handler and returns when all is closed.
  Task<> stop();

  class Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace cove::http
