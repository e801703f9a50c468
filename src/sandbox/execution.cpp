#include "sandbox/execution.hpp"

#include <algorithm>

namespace cove::sandbox {
namespace {

constexpr std::size_t kEventCost = 256;

// Not in the middle of a character.
std::string_view whole_characters(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace

std::string_view name_of(ExecutionEnd::Status status) {
  return status == ExecutionEnd::Status::ok ? "ok" : status == ExecutionEnd::Status::error ? "error" : "aborted";
}

void Execution::begin() {
  state_ = State::running;
  began_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

void Execution::add_text(std::string_view stream, std::string_view text) {
  const bool out = stream == "stdout";
  auto& kept = out ? kept_out_ : kept_err_;
  auto& lost = out ? truncated_.stdout_bytes : truncated_.stderr_bytes;
  const auto room = limits_.output_bytes - std::min(limits_.output_bytes, kept);
  const auto piece = whole_characters(text, static_cast<std::size_t>(std::min<std::uint64_t>(room, text.size())));
  kept += piece.size();
  lost += text.size() - piece.size();
  // What was cut stays cut: later output would look as if it followed.
  if (piece.size() < text.size()) kept = limits_.output_bytes;
  if (piece.empty()) return;
  boost::json::object content{{"text", piece}};
  events_.push_back({.sequence = next_++, .type = std::string(stream), .content = std::move(content)});
  held_ += piece.size() + kEventCost;
  changed_.notify_all();
}

void Execution::add(std::string type, boost::json::object content, std::size_t bytes) {
  if (kept_display_ + bytes + kEventCost > limits_.display_bytes) {
    ++truncated_.displays;
    return;
  }
  kept_display_ += bytes + kEventCost;
  held_ += bytes + kEventCost;
  if (type == "input_request") waits_for_input_ = true;
  events_.push_back({.sequence = next_++, .type = std::move(type), .content = std::move(content)});
  changed_.notify_all();
}

void Execution::finish(ExecutionEnd end) {
  if (end_) return;
  if (state_ == State::running)
    end.wall = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began_);
  state_ = State::ended;
  waits_for_input_ = false;
  end_ = std::move(end);
  events_.push_back({.sequence = next_++, .type = "end", .content = {}});
  changed_.notify_all();
}

}  // namespace cove::sandbox
