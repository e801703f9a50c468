#include "sandbox/execution.hpp"

#include "base/text.hpp"
#include "base/units.hpp"
#include "sandbox/journal_outcome.hpp"

namespace cove::sandbox {
namespace {

namespace json = boost::json;

constexpr std::size_t kEventCost = 256;
constexpr std::size_t kMaxTexts = 20'000;      // events, after which text is discarded as over the limit
constexpr std::size_t kTextEvent = 64U << 10;  // as large as one grows
constexpr std::size_t kMaxPrompt = 16U << 10;  // a longer prompt is cut
constexpr std::size_t kMaxPictures = 100;      // that are named although they are left out
constexpr std::size_t kMaxUntaken = 4U << 20;  // then the interpreter waits
constexpr std::size_t kMaxName = 1U << 10;
constexpr std::size_t kMaxValue = 64U << 10;
constexpr std::size_t kMaxTraceback = 256U << 10;
constexpr std::size_t kLineCost = 16;  // of a line of it, at least

// Cuts between characters.
std::string_view whole_characters(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

// Bytes at the end that may be the beginning of a character.
std::size_t unfinished(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t wants = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return wants > back ? back : 0;
  }
  return 0;
}

void cut(json::object& object, std::string_view name, std::size_t most) {
  auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_string() || value->as_string().size() <= most) return;
  *value = std::string(whole_characters(value->as_string(), most)) + "…";
}

// What a message has of these members: others, of any size, nobody reads.
json::object only(json::object content, std::initializer_list<std::string_view> names) {
  json::object kept;
  for (const auto name : names) {
    if (auto* value = content.if_contains(name)) kept[name] = std::move(*value);
  }
  return kept;
}

// Nobody reads an error message of megabytes.
void cut_error(json::object& error) {
  cut(error, "ename", kMaxName);
  cut(error, "evalue", kMaxValue);
  auto* traceback = error.if_contains("traceback");
  if (traceback == nullptr || !traceback->is_array()) return;
  std::size_t left = kMaxTraceback;
  json::array kept;
  for (const auto& line : traceback->as_array()) {
    if (!line.is_string()) continue;
    const auto piece = whole_characters(line.as_string(), left);
    left -= std::min(left, piece.size() + kLineCost);
    kept.emplace_back(piece.size() == line.as_string().size() ? std::string(piece) : std::string(piece) + "…");
    if (left == 0) break;
  }
  *traceback = std::move(kept);
}

std::size_t most_error() {
  return kMaxName + kMaxValue + kMaxTraceback + kEventCost;
}

// The largest picture of a display.
struct Picture {
  std::string mime;
  std::uint64_t bytes = 0;
};
Picture picture_in(const json::object& content) {
  Picture largest;
  const auto* data = content.if_contains("data");
  if (data == nullptr || !data->is_object()) return largest;
  for (const auto& [mime, value] : data->as_object()) {
    if (!mime.starts_with("image/") || !value.is_string()) continue;
    const auto size = value.as_string().size();
    const auto bytes = mime == "image/svg+xml" ? size : size / 4 * 3;  // others are base64
    if (bytes > largest.bytes) largest = {.mime = std::string(mime), .bytes = bytes};
  }
  return largest;
}

// What a person would compare of a result, or of an error.
std::string shown_text(const json::object& content) {
  const auto text = [](const json::object& object, std::string_view name) {
    const auto* value = object.if_contains(name);
    return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
  };
  const auto* data = content.if_contains("data");
  if (data != nullptr && data->is_object()) return text(data->as_object(), "text/plain");
  return text(content, "ename") + ": " + text(content, "evalue");
}

}  // namespace

std::string_view name_of(ExecutionEnd::Status status) {
  return status == ExecutionEnd::Status::ok ? "ok" : status == ExecutionEnd::Status::error ? "error" : "aborted";
}

Execution::Execution(boost::asio::any_io_executor executor, std::uint64_t id, ExecutionLimits limits,
                     ExecutionOrder order)
    : id_(id), limits_(limits), changed_(std::move(executor)), order_(std::move(order)) {
  push("queued", {}, 0);
}

void Execution::push(std::string type, json::object content, std::size_t bytes) {
  held_ += bytes + kEventCost;
  events_.push_back(
      {.sequence = next_++, .type = std::move(type), .content = std::move(content), .bytes = bytes + kEventCost});
  const auto& event = events_.back();
  if (watcher_ != nullptr && event.type != "stdout" && event.type != "stderr") watcher_->on_event(event);
  changed_.notify_all();
}

std::deque<ExecutionEvent> Execution::take_events() {
  held_ = 0;
  if (!events_.empty()) changed_.notify_all();
  return std::exchange(events_, {});
}

bool Execution::full() const {
  return held_until_taken() && held_ > kMaxUntaken;
}

void Execution::set_count(std::int64_t count) {
  count_ = count;
  changed_.notify_all();
}

void Execution::begin() {
  state_ = State::running;
  began_ = std::chrono::steady_clock::now();
  push("started", {}, 0);
}

void Execution::add_text(std::string_view stream, std::string_view text) {
  if (order_.entry) order_.entry->add_output(stream, text);
  if (watcher_ != nullptr) watcher_->on_text(stream, text);
  const bool out = stream == "stdout";
  auto& kept = out ? kept_out_ : kept_err_;
  auto& lost = out ? truncated_.stdout_bytes : truncated_.stderr_bytes;
  auto& end = out ? end_out_ : end_err_;
  if (end) {
    lost += text.size();
    return end->add(text);
  }
  auto* last = events_.empty() ? nullptr : &events_.back();
  const bool grows = last != nullptr && last->type == stream && last->sequence > read_ &&
                     last->content.at("text").as_string().size() + text.size() <= kTextEvent;
  const bool all = held_until_taken();
  if (!all && !grows && events_.size() >= kMaxTexts) kept = limits_.output_bytes;
  const auto beginning = OutputEnd::beginning(limits_.output_bytes);
  const auto room = all ? text.size() : beginning - std::min(beginning, kept);
  const auto piece = whole_characters(text, static_cast<std::size_t>(std::min<std::uint64_t>(room, text.size())));
  kept += piece.size();
  lost += text.size() - piece.size();
  // What follows a cut waits: only its end is shown, behind a line that says so.
  if (piece.size() < text.size()) {
    end.emplace(limits_.output_bytes);
    end->add(text.substr(piece.size()));
  }
  if (piece.empty()) return;
  if (!grows) return push(std::string(stream), {{"text", piece}}, piece.size());
  last->content.at("text").as_string().append(piece);
  last->bytes += piece.size();
  held_ += piece.size();
  changed_.notify_all();
}

// What came after the beginning of a long stream, or its end.
void Execution::add_end(std::string_view stream) {
  auto& end = stream == "stdout" ? end_out_ : end_err_;
  if (!end) return;
  const auto text = end->take();
  end.reset();
  auto& lost = stream == "stdout" ? truncated_.stdout_bytes : truncated_.stderr_bytes;
  lost -= std::min<std::uint64_t>(lost, text.size());
  if (!text.empty()) push(std::string(stream), {{"text", text}}, text.size());
}

void Execution::add_bytes(std::string_view stream, std::string_view bytes) {
  auto& partial = stream == "stdout" ? partial_out_ : partial_err_;
  auto whole = std::exchange(partial, {}).append(bytes);
  const auto tail = unfinished(whole);
  partial = whole.substr(whole.size() - tail);
  whole.resize(whole.size() - tail);
  if (!whole.empty()) add_text(stream, replace_invalid_utf8(whole));
}

void Execution::add(std::string type, json::object content, std::size_t bytes) {
  if (type == "input_request") return add_question(std::move(content), bytes);
  if (order_.entry && (type == "result" || type == "error")) order_.entry->add_output(type, shown_text(content));
  if (type == "error") {
    content = only(std::move(content), {"ename", "evalue", "traceback"});
    cut_error(content);
    bytes = std::min(bytes, most_error());
  }
  if (!held_until_taken() && kept_display_ + bytes + kEventCost > limits_.display_bytes) {
    ++truncated_.displays;
    if (const auto picture = picture_in(content); picture.bytes > 0)
      name_picture(picture.mime, "of " + format_size(picture.bytes), limits_.display_bytes);
    return;
  }
  kept_display_ += bytes + kEventCost;
  push(std::move(type), std::move(content), bytes);
}

void Execution::add_dropped_display(std::string_view head, std::size_t most) {
  ++truncated_.displays;
  const auto from = head.find("\"image/");
  const auto to = from == std::string_view::npos ? from : head.find('"', from + 1);
  if (to != std::string_view::npos)
    name_picture(replace_invalid_utf8(head.substr(from + 1, to - from - 1)), "of more than " + format_size(most), most);
}

// In the place of a picture that is not shown: who reads the answer learns that there was one.
void Execution::name_picture(std::string_view mime, std::string_view size, std::uint64_t most) {
  if (++pictures_named_ > kMaxPictures) return;
  auto sentence = fmt::format("[{} {} left out: an execution shows at most {}; save it to a file instead]", mime, size,
                              format_size(most));
  const auto bytes = sentence.size();
  push("display", {{"data", {{"text/plain", std::move(sentence)}}}, {"metadata", json::object()}}, bytes);
}

// A request for input is always reported, without its prompt when the limit is reached.
void Execution::add_question(json::object content, std::size_t bytes) {
  waits_for_input_ = true;
  if (events_.size() >= 2 * kMaxTexts) return;
  content = only(std::move(content), {"prompt", "password"});
  if (!content["prompt"].is_string()) content["prompt"] = std::string();
  if (!content["password"].is_bool()) content["password"] = false;
  cut(content, "prompt", kMaxPrompt);
  bytes = std::min(bytes, kMaxPrompt);
  if (!held_until_taken() && kept_display_ + bytes > limits_.display_bytes) content["prompt"] = std::string();
  kept_display_ += bytes;
  push("input_request", std::move(content), bytes);
}

void Execution::finish(ExecutionEnd end, std::size_t reply_bytes) {
  if (end_) return;
  for (const std::string_view stream : {"stdout", "stderr"}) {
    const auto rest = std::exchange(stream == "stdout" ? partial_out_ : partial_err_, {});
    if (!rest.empty()) add_text(stream, replace_invalid_utf8(rest));
    add_end(stream);
  }
  if (state_ == State::running)
    end.wall = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began_);
  state_ = State::ended;
  waits_for_input_ = false;
  if (order_.op == "execute") {
    cut_error(end.reply);
    if (reply_bytes > most_error()) reply_bytes = json::serialize(end.reply).size();
    if (!held_until_taken() && reply_bytes > most_error() && kept_display_ + reply_bytes > limits_.display_bytes) {
      const auto* expressions = end.reply.if_contains("user_expressions");
      if (expressions != nullptr && expressions->is_object() && !expressions->as_object().empty())
        ++truncated_.displays;
      end.reply.erase("user_expressions");
      end.reply.erase("payload");
      reply_bytes = most_error();
    }
  }
  end_ = std::move(end);
  if (const auto entry = std::exchange(order_.entry, nullptr)) entry->end(outcome_of(*end_));
  push("end", {}, reply_bytes);
}

}  // namespace cove::sandbox
