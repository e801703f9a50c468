#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "async/task.hpp"
#include "base/budget.hpp"
#include "base/result.hpp"

namespace cove::http {

template <class T = void>
using Task = async::Task<T>;

// What a handler wants of a WebSocket.
struct WebSocketWish {
  std::string protocol = {};      // the subprotocol to select; "": none. The client must have offered it
  std::size_t message_limit = 0;  // bytes of one message from the client; 0: as the server has it
};

// One WebSocket, server side. Messages are at most 1 MiB unless the handler wished for more; a peer that does not
// answer pings is dropped. One task may read while others send. Errc::unavailable: it is closed, by whichever side and
// for whatever reason.
class WebSocket {
 public:
  struct Message {
    bool text = false;
    std::string data;  // UTF-8 when `text`
    // What it takes of the server's memory, counted since its first byte came. A handler that keeps the data longer
    // than the message moves this along with it.
    Budget::Charge charge = {};
  };

  virtual ~WebSocket() = default;
  virtual Task<Result<Message>> read() = 0;
  // Return when the kernel has taken the message. The view must live until then.
  virtual Task<Result<>> send_text(std::string_view data) = 0;
  virtual Task<Result<>> send_binary(std::string_view data) = 0;
  // Sends a close frame and waits briefly for the other side's. `reason` is cut to 123 bytes.
  virtual Task<> close(std::uint16_t code, std::string reason) = 0;
  // Returns a function that closes the connection at once, without a close frame; it does nothing once the WebSocket
  // is gone.
  virtual std::function<void()> cutter() = 0;
};

}  // namespace cove::http
