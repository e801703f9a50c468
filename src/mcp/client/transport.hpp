#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "async/task.hpp"
#include "base/result.hpp"
#include "mcp/message.hpp"
#include "outbound/client.hpp"

namespace cove::mcp::client {

// What came of a request.
struct Reply {
  boost::json::object result{};
  std::optional<Fault> fault{};  // it was refused, in JSON-RPC
  std::uint64_t bytes = 0;       // of the answer as text
  unsigned status = 200;         // of HTTP
  std::string said{};            // the beginning of a body that is no JSON-RPC, with a status that is no success
  bool session_lost = false;     // 404: begin a new one, and ask again
  bool unauthorized = false;     // 401 or 403, and no credentials help
};

// One message on its way to the server.
struct Outgoing {
  boost::json::object message{};
  std::uint64_t id = 0;         // of a request; 0: a notification or a response
  outbound::Headers headers{};  // what HTTP repeats outside the body
  std::chrono::steady_clock::time_point until{};
};

// Who hears what comes from the server.
class Listener {
 public:
  virtual ~Listener() = default;
  // Any message, as it was parsed; `bytes` of text.
  virtual void receive(boost::json::value message, std::uint64_t bytes) = 0;
  // There is no answer to a request of ours, or one that is no JSON-RPC.
  virtual void settle(std::uint64_t id, Result<Reply> outcome) = 0;
  // Something is wrong with what the server sends; it goes on.
  virtual void complain(std::string_view what) = 0;
  // A stream broke and was taken up again.
  virtual void resumed() = 0;
  // The connection is over: whatever still waits fails with this.
  virtual void lost(Error why) = 0;
};

// Carries messages to a server and back. Nothing here blocks or waits but start() and close().
class Transport {
 public:
  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // The outcome of a request comes to the listener, as `receive` or as `settle`. Errc::over_limit: too much waits.
  virtual Result<> send(Outgoing message) = 0;
  // The same for a notification that must arrive before anything else is sent.
  virtual async::Task<Result<>> deliver(Outgoing message) = 0;
  // Nobody waits for the answer any more. True: the server learns it from this; else it wants to be told.
  virtual bool abandon(std::uint64_t id) = 0;
  // The handshake is over: what the server may say on its own is listened to. `name` of the revision, for later
  // requests.
  virtual void settled(std::string_view revision) = 0;
  virtual async::Task<> close() = 0;
};

// Text of a message as JSON. Errc::invalid: it is none; Errc::over_limit: deeper, or of more parts, than allowed.
Result<boost::json::value> parse_text(std::string_view text, std::size_t max_depth);
// For a person to read: without control characters, and of this many bytes at most.
std::string shown(std::string_view text, std::size_t most = 300);

}  // namespace cove::mcp::client
