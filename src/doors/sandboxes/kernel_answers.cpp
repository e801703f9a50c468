#include "doors/sandboxes/kernel_answers.hpp"

#include <charconv>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "doors/sandboxes/answers.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;
using sandbox::Execution;

constexpr std::chrono::seconds kKeepAlive{15};
constexpr std::chrono::milliseconds kPollInterval{250};
constexpr std::size_t kBatch = 256U << 10;

json::value member(const json::object& object, std::string_view name, json::value missing = nullptr) {
  const auto* value = object.if_contains(name);
  return value == nullptr ? std::move(missing) : *value;
}

json::string text_member(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? value->as_string() : json::string();
}

json::object object_member(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_object() ? value->as_object() : json::object();
}

json::object error_of(const json::object& said) {
  const auto* traceback = said.if_contains("traceback");
  return {{"name", text_member(said, "ename")},
          {"value", text_member(said, "evalue")},
          {"traceback", traceback != nullptr && traceback->is_array() ? traceback->as_array() : json::array()}};
}

bool is_output(std::string_view type) {
  return type == "display" || type == "update_display" || type == "result" || type == "clear_output" ||
         type.starts_with("comm_");
}

// Translates the content of a kernel's message into an event of this API.
void add_content(json::object& to, std::string_view type, const json::object& said) {
  if (type == "stdout" || type == "stderr") {
    to["data"] = text_member(said, "text");
  } else if (type == "display" || type == "update_display" || type == "result") {
    to["data"] = object_member(said, "data");
    to["metadata"] = object_member(said, "metadata");
    if (type == "result") to["executionCount"] = member(said, "execution_count");
    const auto transient = object_member(said, "transient");
    if (const auto id = text_member(transient, "display_id"); !id.empty()) to["displayId"] = id;
  } else if (type == "error") {
    for (auto& [name, value] : error_of(said)) to[name] = std::move(value);
  } else if (type == "clear_output") {
    to["wait"] = member(said, "wait", false);
  } else if (type == "input_request") {
    to["prompt"] = text_member(said, "prompt");
    to["password"] = member(said, "password", false);
  } else if (type.starts_with("comm_")) {
    to["commId"] = text_member(said, "comm_id");
    if (type == "comm_open") to["targetName"] = text_member(said, "target_name");
    to["data"] = member(said, "data", json::object());
    to["metadata"] = object_member(said, "metadata");
  }
}

json::object expressions_of(const json::object& reply) {
  json::object out;
  for (const auto& [name, value] : object_member(reply, "user_expressions")) {
    if (!value.is_object()) continue;
    const auto& said = value.as_object();
    if (text_member(said, "status") == "ok") {
      out[name] = json::object{
          {"status", "ok"}, {"data", object_member(said, "data")}, {"metadata", object_member(said, "metadata")}};
    } else {
      auto failed = error_of(said);
      failed["status"] = "error";
      out[name] = std::move(failed);
    }
  }
  return out;
}

json::value error_of_end(const Execution& execution) {
  const auto& end = *execution.end();
  if (end.status != sandbox::ExecutionEnd::Status::error) return nullptr;
  if (end.reply.contains("ename")) return error_of(end.reply);
  const auto& events = execution.events();
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (event->type == "error") return error_of(event->content);
  }
  return nullptr;
}

void add_end(json::object& to, const Execution& execution) {
  const auto& end = *execution.end();
  to["status"] = name_of(end.status);
  to["reason"] = name_of(end.reason);
  to["executionCount"] = member(end.reply, "execution_count");
  to["error"] = error_of_end(execution);
  to["userExpressions"] = expressions_of(end.reply);
  to["durationMs"] = end.wall.count();
  const auto& lost = execution.truncated();
  to["truncated"] = {
      {"stdoutBytes", lost.stdout_bytes}, {"stderrBytes", lost.stderr_bytes}, {"displays", lost.displays}};
  if (end.oom_kills > 0) to["oomKills"] = end.oom_kills;
  if (!end.note.empty()) to["note"] = replace_invalid_utf8(end.note);
  const auto* payload = end.reply.if_contains("payload");
  if (payload != nullptr && payload->is_array() && !payload->as_array().empty()) to["payload"] = *payload;
}

}  // namespace

std::string execution_id(const Execution& execution) {
  return fmt::format("e{}", execution.id());
}

Result<std::uint64_t> execution_number(std::string_view id) {
  std::uint64_t number = 0;
  if (id.starts_with('e')) {
    const auto [end, failed] = std::from_chars(id.data() + 1, id.data() + id.size(), number);
    if (failed == std::errc() && end == id.data() + id.size()) return number;
  }
  return fail(Errc::not_found, fmt::format("no such execution: {}", replace_invalid_utf8(id)));
}

json::object to_json(const sandbox::Kernel& kernel) {
  json::object object{{"id", kernel.id()},
                      {"language", sandbox::name_of(kernel.language())},
                      {"state", name_of(kernel.state())},
                      {"startedAt", iso_time(kernel.started_unix_ms())},
                      {"executions", kernel.executions()},
                      {"queued", kernel.queued()},
                      {"birth", kernel.warm() ? "warm" : "cold"}};
  if (kernel.state() == sandbox::Kernel::State::dead) object["note"] = replace_invalid_utf8(kernel.how_it_died());
  return object;
}

json::object to_json(const Execution& execution, const sandbox::ExecutionEvent& event) {
  json::object object{{"seq", event.sequence}, {"type", event.type}};
  if (event.type == "queued") object["executionId"] = execution_id(execution);
  if (event.type == "end")
    add_end(object, execution);
  else
    add_content(object, event.type, event.content);
  return object;
}

json::object result_of(const Execution& execution) {
  std::string out;
  std::string err;
  json::array outputs;
  for (const auto& event : execution.events()) {
    if (event.type == "stdout") out += text_member(event.content, "text");
    if (event.type == "stderr") err += text_member(event.content, "text");
    if (!is_output(event.type)) continue;
    json::object output{{"type", event.type}};
    add_content(output, event.type, event.content);
    outputs.push_back(std::move(output));
  }
  json::object object{{"executionId", execution_id(execution)},
                      {"stdout", std::move(out)},
                      {"stderr", std::move(err)},
                      {"outputs", std::move(outputs)}};
  add_end(object, execution);
  return object;
}

json::object to_json(const Execution& execution) {
  using State = Execution::State;
  json::object object{{"executionId", execution_id(execution)}};
  if (execution.end()) object = result_of(execution);
  object["state"] = execution.state() == State::queued    ? "queued"
                    : execution.state() == State::running ? "running"
                                                          : "ended";
  object["waitsForInput"] = execution.waits_for_input();
  object["lastSeq"] = execution.events().size();
  return object;
}

Task<> stream_events(http::Exchange& exchange, std::shared_ptr<Execution> execution, std::uint64_t from) {
  auto head = event_stream();
  if (!co_await exchange.start(std::move(head))) co_return;
  auto next = std::max<std::uint64_t>(1, from);
  auto spoke = Clock::now();
  while (!exchange.client_gone()) {
    std::string text;
    const auto& events = execution->events();  // numbered from 1 without holes
    for (; next <= events.size() && text.size() < kBatch; ++next) {
      const auto& event = events[next - 1];
      text += http::sse_event(event.sequence, event.type, json::serialize(to_json(*execution, event)));
    }
    execution->mark_read(std::min<std::uint64_t>(next - 1, events.size()));
    const bool over = execution->end() && next > events.size();
    if (text.empty() && !over && Clock::now() - spoke >= kKeepAlive) text = http::sse_comment();
    if (!text.empty()) {
      spoke = Clock::now();
      if (!co_await exchange.write(text)) co_return;
      continue;
    }
    if (over) break;
    co_await execution->changed().wait_until(Clock::now() + kPollInterval);
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

}  // namespace cove::doors::sandboxes
