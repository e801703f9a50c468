#include "client/events.hpp"

#include <utility>

namespace cove::client {

void EventParser::feed(std::string_view bytes) {
  for (const char c : bytes) {
    const bool second_half = std::exchange(after_return_, c == '\r') && c == '\n';  // of a \r\n
    if (second_half) continue;
    if (c == '\r' || c == '\n')
      take_line(std::exchange(line_, {}));
    else
      line_.push_back(c);
  }
}

void EventParser::take_line(std::string_view line) {
  if (line.empty()) {
    if (std::exchange(has_data_, false)) {
      if (event_.type.empty()) event_.type = "message";
      ready_.push_back(event_);
    }
    event_.type.clear();
    event_.data.clear();
    return;
  }
  const auto colon = line.find(':');
  const auto name = line.substr(0, colon);
  auto value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    if (std::exchange(has_data_, true)) event_.data += '\n';
    event_.data += value;
  } else if (name == "event") {
    event_.type = value;
  } else if (name == "id") {
    event_.id = value;
  }
}

std::optional<Event> EventParser::next() {
  if (ready_.empty()) return std::nullopt;
  auto event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

}  // namespace cove::client
