#include "mcp/http/stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cove::mcp_http {

namespace json = boost::json;

Stream::Stream(boost::asio::any_io_executor executor, std::string name)
    : name_(std::move(name)), changed_(std::move(executor)) {}

void Stream::push(const json::object& message) {
  Event event{.data = json::serialize(message), .answer = !message.contains("method")};
  if (const auto* error = message.if_contains("error"); event.answer && error != nullptr)
    event.fault = error->as_object().at("code").to_number<int>();
  add(std::move(event));
}

void Stream::push(const json::array& answers) {
  add({.data = json::serialize(answers), .answer = true});
}

void Stream::add(Event event) {
  event.number = next_++;
  bytes_ += event.data.size();
  events_.push_back(std::move(event));
  while (events_.size() > 1 && (events_.size() > kMaxEvents || bytes_ > kMaxBytes)) {
    const auto& oldest = events_.front();
    const bool waits = oldest.answer && oldest.number > given_;
    if (waits && bytes_ <= kMaxUngiven) break;
    broken_ = broken_ || waits;
    bytes_ -= events_.front().data.size();
    events_.pop_front();
  }
  changed_.notify_all();
}

void Stream::finish() {
  if (!finished_) finished_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

void Stream::part(std::chrono::milliseconds retry) {
  parting_ = retry;
  changed_.notify_all();
}

std::optional<std::chrono::milliseconds> Stream::take_parting() {
  return std::exchange(parting_, std::nullopt);
}

std::string Stream::id_of(std::uint64_t number) const {
  return fmt::format("{}_{}", name_, number);
}

std::vector<Stream::Event> Stream::after(std::uint64_t number) const {
  std::vector<Event> out;
  std::ranges::copy_if(events_, std::back_inserter(out),
                       [number](const Event& event) { return event.number > number; });
  return out;
}

const Stream::Event* Stream::only_answer() const {
  return finished_ && next_ == 2 && events_.front().answer ? &events_.front() : nullptr;
}

bool Stream::tells() const {
  return parting_ || next_ > 2 || (next_ == 2 && !events_.front().answer);
}

std::uint64_t Stream::take_reading() {
  ++reader_;
  changed_.notify_all();
  return reader_;
}

}  // namespace cove::mcp_http
