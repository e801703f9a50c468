#pragma once

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/budget.hpp"
#include "http/auth.hpp"
#include "http/exchange.hpp"
#include "http/gate.hpp"
#include "http/head.hpp"
#include "http/server.hpp"

namespace cove::http {

// What the connections of one server have in common.
struct ServerShared {
  boost::asio::any_io_executor executor;
  std::shared_ptr<const ServerOptions> options;
  const Router& router;
  Authenticator& authenticator;
  Server::Hooks hooks;
  Server::Counts counts;
  FailureThrottle throttle;
  Budget budget;
  std::string scratch = std::string(std::size_t{64} << 10, '\0');  // for one recv(2), used up before anybody else runs
  bool draining = false;
};

// One TCP connection and the requests that come over it, one after the other. Internal to the room: handlers see an
// Exchange. Reads and writes are tried at once and waited for only when the kernel says so; each wait has its watchdog,
// which closes the socket, so that there is one way for a wait to end.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(std::shared_ptr<ServerShared> shared, boost::asio::ip::tcp::socket socket);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // Until the connection is over. The caller keeps the Connection alive.
  Task<> run();
  void close_if_idle();
  [[nodiscard]] const std::string& peer_address() const { return peer_address_; }
  // Between two requests, or before the first.
  [[nodiscard]] bool idle() const { return idle_; }
  [[nodiscard]] bool serving() const { return exchange_ != nullptr; }
  // Has never shown what opens this server.
  [[nodiscard]] bool unknown() const { return !known_; }
  [[nodiscard]] Clock::time_point since() const { return since_; }
  // Whether who made the request under way would still be let in, as a question that may outlast this; empty where
  // everybody is.
  [[nodiscard]] std::function<bool()> validity() const;
  // Ends the request under way when whoever made it would not be let in any more.
  void revalidate();
  // Ends everything, at once.
  void cut();

 private:
  friend class Exchange;
  using Buffers = std::array<boost::asio::const_buffer, 3>;
  struct Watchdog {
    explicit Watchdog(const boost::asio::any_io_executor& executor) : timer(executor) {}
    boost::asio::steady_timer timer;
    std::uint64_t generation = 0;
  };
  enum class First { yes, no };

  Task<std::variant<std::monostate, Head, Refusal>> next_head(First first);
  // True: the connection can take another request.
  Task<bool> serve(Head head, std::optional<Refusal> refused);
  std::optional<Response> admit(Head& head, const Router::Route*& route);
  [[nodiscard]] bool comes_from_here(const Request& request) const;
  Task<bool> discard_body();
  Task<> linger();
  void log(const Exchange& exchange, const std::string& shown_target, Clock::time_point started);

  // 0: the other side has no more to send.
  Task<Result<std::size_t>> receive(char* data, std::size_t size, Clock::time_point deadline);
  // Appends to the input buffer. Nothing is set aside for what has not come yet.
  Task<Result<std::size_t>> receive_more(Clock::time_point deadline);
  // Until there is something to read, or the end.
  Task<Result<>> readable(Clock::time_point deadline);
  // Bytes that are there now: -1 when there are none, with errno.
  ssize_t receive_now(char* data, std::size_t size);
  Task<> give_way(std::size_t moved);
  Task<Result<>> write(Buffers buffers);
  Task<Result<>> write(std::string_view bytes);
  [[nodiscard]] Clock::time_point body_deadline() const;

  // Body bytes for the exchange or for the bin: 1..size, or 0 at the end.
  Task<Result<std::size_t>> read_body(char* data, std::size_t size);

  void watch();
  void watched(std::uint64_t generation, boost::system::error_code ec);
  void stop_watching();
  void client_left();

  void arm_read(Clock::time_point deadline);
  void arm_write(int queued);
  static void disarm(Watchdog& watchdog);
  [[nodiscard]] int queued() const;
  void close();
  void reset();

  void consume(std::size_t count);
  [[nodiscard]] std::string_view input() const { return std::string_view(buffer_).substr(consumed_); }

  std::shared_ptr<ServerShared> shared_;
  std::shared_ptr<const ServerOptions> options_;  // of the current request
  boost::asio::ip::tcp::socket socket_;
  std::string peer_;
  std::string peer_address_;
  bool peer_is_local_ = false;
  std::string local_address_;
  std::uint16_t local_port_ = 0;

  std::string buffer_;  // received and not yet used, from consumed_ on
  std::size_t consumed_ = 0;
  BodyDecoder body_;
  std::uint64_t body_bytes_ = 0;
  Clock::duration body_waited_{};
  std::uint64_t body_rate_ = 0;  // bytes a second that are waited for
  std::optional<std::uint64_t> content_length_;

  Watchdog read_watchdog_;
  Watchdog write_watchdog_;
  boost::asio::cancellation_signal watch_cancellation_;
  std::uint64_t watch_generation_ = 0;
  bool watching_ = false;
  Exchange* exchange_ = nullptr;

  const Clock::time_point since_ = Clock::now();
  bool known_ = false;
  bool keyed_ = false;  // the route of the request under way wants a key
  std::function<void()> cut_websocket_;
  bool idle_ = false;
  bool keep_alive_ = false;
  bool expect_pending_ = false;  // the client waits for our "100 Continue"
  bool eof_ = false;
  bool gone_ = false;
  bool upgraded_ = false;
  std::size_t unyielded_ = 0;  // bytes moved without giving way to others
};

}  // namespace cove::http
