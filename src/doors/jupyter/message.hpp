#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::doors::jupyter {

// One Jupyter message, in either direction.
struct Message {
  std::string channel;  // shell, control, stdin, iopub
  boost::json::object header;
  boost::json::object parent_header;
  boost::json::object metadata;
  boost::json::object content;
  std::vector<std::string> buffers;

  // From the header; "" when it has none.
  [[nodiscard]] std::string type() const;
  // About what it takes of our memory.
  [[nodiscard]] std::size_t bytes() const;
};

// How messages are written on a WebSocket: as one JSON text (with buffers, binary), or in the binary parts of
// `v1.kernel.websocket.jupyter.org`.
enum class Framing : std::uint8_t { legacy, v1 };
inline constexpr std::string_view kV1Protocol = "v1.kernel.websocket.jupyter.org";

// One message of a WebSocket.
struct Frame {
  bool text = true;
  std::string data;
};

// Errc::invalid says what is wrong. A message without a channel is for the shell.
Result<Message> decode(Framing framing, bool text, std::string_view data);
Frame encode(Framing framing, const Message& message);

}  // namespace cove::doors::jupyter
