#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "base/principal.hpp"
#include "doors/jupyter/message.hpp"
#include "http/websocket.hpp"

namespace cove::doors::jupyter {

using async::Task;

// One WebSocket of a client at a kernel, and what waits to be sent on it.
class Client {
 public:
  static constexpr std::size_t kMaxQueued = 2U << 20;  // bytes; then whoever produces them waits

  Client(boost::asio::any_io_executor executor, std::shared_ptr<http::WebSocket> socket, Framing framing,
         std::string session, Principal principal);

  [[nodiscard]] Framing framing() const { return framing_; }
  // What the client calls itself; a client that reconnects does so with the same name. "" for none.
  [[nodiscard]] const std::string& session() const { return session_; }
  [[nodiscard]] const Principal& principal() const { return principal_; }

  // Queues a frame. Does nothing once the connection is over.
  void send(std::shared_ptr<const Frame> frame);
  [[nodiscard]] bool full() const { return !over_ && queued_ > kMaxQueued; }
  // So much that nothing more is read from it.
  [[nodiscard]] bool overfull() const { return !over_ && queued_ > 8 * kMaxQueued; }
  [[nodiscard]] bool over() const { return over_; }
  // Notified when frames were sent, and at the end.
  [[nodiscard]] async::Signal& changed() { return changed_; }
  // What is queued is sent first.
  void close(std::uint16_t code, std::string reason);

  // Sends what is queued, until the connection is over.
  static Task<> pump(std::shared_ptr<Client> self);
  // The next message that the client sends. Errc::unavailable: the connection is over.
  Task<Result<http::WebSocket::Message>> read() { return socket_->read(); }
  // Ends the connection at once.
  void cut();

 private:
  std::shared_ptr<http::WebSocket> socket_;
  Framing framing_;
  std::string session_;
  Principal principal_;
  async::Signal changed_;
  std::deque<std::shared_ptr<const Frame>> queue_;
  std::size_t queued_ = 0;
  std::uint16_t close_code_ = 0;
  std::string close_reason_;
  bool over_ = false;
};

}  // namespace cove::doors::jupyter
