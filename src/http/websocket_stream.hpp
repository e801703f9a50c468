#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "base/budget.hpp"
#include "base/result.hpp"
#include "http/request.hpp"
#include "http/response.hpp"
#include "http/websocket.hpp"

namespace cove::http {

struct WebSocketOptions {
  std::chrono::milliseconds idle_timeout{60'000};
  std::chrono::milliseconds handshake_timeout{2'000};
  std::chrono::milliseconds write_timeout{30'000};
  std::size_t message_limit = 1 << 20;
  std::string protocol = {};  // the subprotocol that is selected; "": none
  // Asked before each message is passed on: whether the client's credentials are still valid. Empty: always.
  std::function<bool()> still_valid = {};
  // Opens the charge for a message: one that comes, until its handler is done with it, and one that waits for the
  // client to take it. When it cannot grow the connection ends. Empty: nothing is counted.
  std::function<Budget::Charge()> charge = {};
};

// The answer to a request that is not a handshake; nothing when it is one.
std::optional<Response> websocket_problem(const Request& request);

// Answers the handshake over `socket`, which the WebSocket then owns.
Task<Result<std::unique_ptr<WebSocket>>> upgrade(boost::asio::ip::tcp::socket socket, const Request& request,
                                                 WebSocketOptions options);

}  // namespace cove::http
