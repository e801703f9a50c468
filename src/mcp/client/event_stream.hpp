#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::mcp::client {

struct StreamEvent {
  std::string type;  // "message" when the stream names none
  std::string data;  // lines joined with '\n'
};

// Reads server-sent events as they come, in pieces of any size.
class EventStream {
 public:
  explicit EventStream(std::size_t max_event_bytes) : max_(max_event_bytes) {}

  // The events that are complete now. Errc::over_limit: an event, or a line, is larger than allowed.
  Result<std::vector<StreamEvent>> feed(std::string_view bytes);

  // Of the last event that was complete, with data or without; none: the stream has not given one.
  [[nodiscard]] const std::optional<std::string>& last_id() const { return last_id_; }
  // How long to wait before connecting again, if the server has said.
  [[nodiscard]] std::optional<std::chrono::milliseconds> retry() const { return retry_; }

 private:
  void take_line(std::string_view line, std::vector<StreamEvent>& out);

  std::size_t max_;
  std::string line_;
  bool begun_ = false;     // behind the byte order mark, if there was one
  bool after_cr_ = false;  // a '\n' that follows belongs to it
  std::string data_;
  bool has_data_ = false;
  std::string type_;
  std::optional<std::string> id_;
  std::optional<std::string> last_id_;
  std::optional<std::chrono::milliseconds> retry_;
};

}  // namespace cove::mcp::client
