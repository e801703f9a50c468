#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace cove::client {

struct Event {
  std::string id;
  std::string type;  // "message" when the server named none
  std::string data;
};

// Parses a stream of server-sent events, in whatever pieces it arrives.
class EventParser {
 public:
  void feed(std::string_view bytes);
  std::optional<Event> next();

 private:
  void take_line(std::string_view line);

  std::string line_;
  Event event_;
  bool has_data_ = false;
  bool after_return_ = false;
  std::deque<Event> ready_;
};

// A stream of events that is being received; made by Client::follow.
class EventStream {
 public:
  struct Body;
  explicit EventStream(std::unique_ptr<Body> body);
  EventStream(EventStream&&) noexcept;
  EventStream& operator=(EventStream&&) noexcept;
  ~EventStream();

  // The next event; none when the server has ended the stream properly.
  Result<std::optional<Event>> next();

 private:
  std::unique_ptr<Body> body_;
  EventParser parser_;
};

}  // namespace cove::client
