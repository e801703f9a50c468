#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "http/exchange.hpp"
#include "http/head.hpp"
#include "http/peer.hpp"
#include "http/server_shared.hpp"
#include "http/timed_socket.hpp"

namespace cove::http {

// One TCP connection and the requests that come over it, one after the other. Internal to the room: handlers see an
// Exchange.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  // `binding` is that of the listener; null: none.
  Connection(std::shared_ptr<ServerShared> shared, boost::asio::ip::tcp::socket socket,
             std::shared_ptr<const Binding> binding);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // Returns when the connection is over. The caller keeps the Connection alive.
  Task<> run();
  void close_if_idle();
  [[nodiscard]] const std::string& peer_address() const { return peer_.address; }
  [[nodiscard]] const Binding* binding() const { return binding_.get(); }
  // Between two requests, or before the first.
  [[nodiscard]] bool idle() const { return idle_; }
  [[nodiscard]] bool serving() const { return exchange_ != nullptr; }
  // Has not shown valid credentials yet.
  [[nodiscard]] bool unknown() const { return !known_; }
  [[nodiscard]] Clock::time_point since() const { return since_; }
  // Asks whether the credentials of the request under way are still valid; it may outlive this connection. Empty where
  // none are needed.
  [[nodiscard]] std::function<bool()> validity() const;
  // Ends the request under way if its credentials are no longer valid.
  void revalidate();
  // Resets the connection at once, whatever is under way.
  void cut();

 private:
  friend class Exchange;
  using Buffers = TimedSocket::Buffers;
  enum class First { yes, no };

  Task<std::variant<std::monostate, Head, Refusal>> next_head(First first);
  // True: the connection can take another request.
  Task<bool> serve(Head head, std::optional<Refusal> refused);
  Task<bool> discard_body();
  Task<> linger();
  void log(const Exchange& exchange, const std::string& shown_target, Clock::time_point started);

  // Appends to the input buffer, and allocates nothing before bytes have come. 0: the other side has no more to send.
  Task<Result<std::size_t>> receive_more(Clock::time_point deadline);
  Task<Result<>> write(Buffers buffers);
  Task<Result<>> write(std::string_view bytes);
  [[nodiscard]] Clock::time_point body_deadline() const;

  // Reads 1..size bytes of the body, or 0 at its end.
  Task<Result<std::size_t>> read_body(char* data, std::size_t size);

  void watch();
  void watched();
  void client_left();

  void consume(std::size_t count);
  [[nodiscard]] std::string_view input() const { return std::string_view(buffer_).substr(consumed_); }

  std::shared_ptr<ServerShared> shared_;
  std::shared_ptr<const ServerOptions> options_;  // of the current request
  const std::shared_ptr<const Binding> binding_;
  const Peer peer_;
  const std::shared_ptr<TimedSocket> socket_;

  std::string buffer_;  // received and not yet used, from consumed_ on
  std::size_t consumed_ = 0;
  BodyDecoder body_;
  std::uint64_t body_bytes_ = 0;
  Clock::duration body_waited_{};
  std::uint64_t body_rate_ = 0;  // minimal rate in bytes per second
  std::optional<std::uint64_t> content_length_;

  Exchange* exchange_ = nullptr;

  const Clock::time_point since_ = Clock::now();
  bool known_ = false;
  bool keyed_ = false;  // the route of the request under way requires a key
  std::function<void()> cut_websocket_;
  bool idle_ = false;
  bool keep_alive_ = false;
  bool expect_pending_ = false;  // the client waits for "100 Continue"
  bool gone_ = false;
  bool upgraded_ = false;
};

}  // namespace cove::http
