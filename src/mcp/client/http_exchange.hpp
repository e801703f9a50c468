#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "async/task.hpp"
#include "base/result.hpp"
#include "mcp/client/event_stream.hpp"
#include "outbound/client.hpp"

namespace cove::mcp::client {

// An answer of a server over HTTP: a body, or events that were told as they came.
struct HttpAnswer {
  outbound::Head head;
  bool events = false;
  std::string body;                    // of what is no event stream
  std::optional<std::string> last_id;  // of the events
  std::optional<std::chrono::milliseconds> retry;
  std::size_t count = 0;
  std::optional<Error> broken;  // of the events: why they ended, unless they came to their end

  // Of its content type, without parameters.
  [[nodiscard]] std::string type() const;
};

// Says whether it wants the events that come after.
enum class Wants { more, no_more };
using OnHead = std::function<void(const outbound::Head&)>;
using OnEvent = std::function<Wants(StreamEvent)>;

// Sends one request. `max_bytes` is of a body, and of each event. Fails when there was no answer at all, or a body that
// is cut off or too large.
async::Task<Result<HttpAnswer>> exchange(outbound::Client& client, outbound::Request request, std::size_t max_bytes,
                                         OnHead on_head, OnEvent on_event);

}  // namespace cove::mcp::client
