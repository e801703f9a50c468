#include "doors/mcp/stream.hpp"

#include <fmt/format.h>

namespace cove::doors::mcp {

Stream::Stream(boost::asio::any_io_executor executor, std::string name)
    : name_(std::move(name)), changed_(std::move(executor)) {}

void Stream::push(std::string data, Kind kind) {
  bytes_ += data.size();
  events_.push_back({.number = next_++, .data = std::move(data), .answer = kind == Kind::answer});
  while (events_.size() > 1 && (events_.size() > kMostEvents || bytes_ > kMostBytes)) {
    bytes_ -= events_.front().data.size();
    events_.pop_front();
  }
  changed_.notify_all();
}

void Stream::finish() {
  if (!finished_) finished_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

std::string Stream::id_of(const Event& event) const {
  return fmt::format("{}_{}", name_, event.number);
}

std::vector<Stream::Event> Stream::after(std::uint64_t number) const {
  std::vector<Event> out;
  for (const auto& event : events_) {
    if (event.number > number) out.push_back(event);
  }
  return out;
}

std::uint64_t Stream::take_reading() {
  ++reader_;
  changed_.notify_all();
  return reader_;
}

void Stream::send_away() {
  sent_away_ = true;
  take_reading();
}

AnswerOutlet::~AnswerOutlet() {
  answer_->over = true;
  answer_->changed.notify_all();
}

void AnswerOutlet::send(boost::json::object message) {
  if (!message.contains("method")) answer_->value = std::move(message);
}

void AnswerOutlet::send_batch(boost::json::array messages) {
  answer_->value = std::move(messages);
}

}  // namespace cove::doors::mcp
