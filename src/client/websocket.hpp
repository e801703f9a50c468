#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "client/connection.hpp"
#include "client/http_client.hpp"

namespace cove::client {

enum class Opcode : std::uint8_t { continuation = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10 };

struct Frame {
  Opcode opcode = Opcode::text;
  bool last = true;
  std::string payload;
};

// A client's frame, masked with `mask` as RFC 6455 requires.
std::string encode_frame(Opcode opcode, std::string_view payload, std::uint32_t mask);

// Parses a server's frames, in whatever pieces they arrive.
class FrameReader {
 public:
  void feed(std::string_view bytes) { bytes_ += bytes; }
  // None when the next frame is incomplete; Errc::invalid for what no server may send.
  Result<std::optional<Frame>> next();

 private:
  std::string bytes_;
};

// A WebSocket that never blocks: for a loop that polls fd(). Written by hand rather than with Beast's, whose blocking
// calls keep bytes where poll() cannot see them.
class WebSocket {
 public:
  struct Message {
    bool text = false;
    std::string data;
  };

  static Result<WebSocket> open(const Options& options, const std::string& target);

  [[nodiscard]] int fd() const { return connection_.fd(); }
  [[nodiscard]] bool wants_write() const { return !unsent_.empty(); }
  [[nodiscard]] std::size_t unsent() const { return unsent_.size(); }
  // Whether the server has sent a close frame.
  [[nodiscard]] bool closed() const { return closed_; }
  // Everything that has arrived. Errc::unavailable when the connection broke without a close frame.
  Result<std::vector<Message>> receive();
  // Queues a message; flush() sends as much as the kernel accepts.
  void send(Opcode opcode, std::string_view payload);
  Result<> flush();

 private:
  WebSocket(Connection connection, std::string_view already);

  Connection connection_;
  FrameReader reader_;
  std::string unsent_;
  Message partial_;
  bool closed_ = false;
};

}  // namespace cove::client
