#include "doors/jupyter/contents.hpp"

#include <fmt/format.h>

#include <array>
#include <ctime>

#include "base/text.hpp"
#include "base/units.hpp"
#include "json/fields.hpp"

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;
using sandbox::ExecutionEnd;
using sandbox::Reason;

constexpr std::size_t kMaxFrame = 9U << 20;  // some clients close the connection at a frame of 10 MiB

void require_object(json::object& content, std::string_view name) {
  auto& value = content[name];
  if (!value.is_object()) value = json::object();
}

void require_text(json::object& content, std::string_view name) {
  auto& value = content[name];
  if (!value.is_string()) value = "";
}

// A picture without a text beside it makes some clients fail.
void complete_bundle(json::object& content, std::size_t bytes) {
  json::object known;
  for (const std::string_view name : {"data", "metadata", "transient"}) {
    if (auto* value = content.if_contains(name); value != nullptr && value->is_object())
      known[name] = std::move(*value);
    else
      known[name] = json::object();
  }
  content = std::move(known);
  auto& data = content.at("data").as_object();
  if (bytes > kMaxFrame)
    data = {{"text/plain", fmt::format("[an output of {} left out: one message has at most {}; save it to a file]",
                                       format_size(bytes), format_size(kMaxFrame))}};
  if (!data.contains("text/plain")) data["text/plain"] = "";
}

void complete_error(json::object& content) {
  content = error_output(content);
}

std::vector<std::string> take_buffers(json::object& content) {
  std::vector<std::string> buffers;
  const auto* texts = content.if_contains("buffers");
  if (texts != nullptr && texts->is_array()) {
    for (const auto& text : texts->as_array())
      buffers.push_back(text.is_string() ? from_base64(text.as_string()).value_or("") : std::string());
  }
  content.erase("buffers");
  return buffers;
}

Published comm(std::string type, json::object content, std::size_t bytes) {
  require_text(content, "comm_id");
  require_object(content, "data");
  if (type == "comm_open") require_text(content, "target_name");
  if (bytes > kMaxFrame) return {};
  auto buffers = take_buffers(content);
  return {.type = std::move(type), .content = std::move(content), .buffers = std::move(buffers)};
}

json::value part(const json::object& reply, std::string_view name, json::value missing) {
  const auto* value = reply.if_contains(name);
  return value != nullptr && value->kind() == missing.kind() ? *value : std::move(missing);
}

// Why an execution ended that did not come to its own end.
json::object ended_from_outside(const ExecutionEnd& end) {
  if (end.reason == Reason::cancelled || end.reason == Reason::shutdown)
    return error_content("KernelRestarted", "the kernel was restarted or ended while this ran");
  return error_content("DeadKernelError", fmt::format("the kernel died: {}",
                                                      end.note.empty() ? std::string(name_of(end.reason)) : end.note));
}

}  // namespace

std::string iso_micros(std::chrono::system_clock::time_point time) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = micros / 1'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const auto size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:06}Z", std::string_view(text.data(), size), micros % 1'000'000);
}

Published published(sandbox::ExecutionEvent event, std::optional<std::int64_t> count) {
  auto& content = event.content;
  if (event.type == "stdout" || event.type == "stderr") {
    content["name"] = event.type;
    return {.type = "stream", .content = std::move(content), .buffers = {}};
  }
  if (event.type == "display" || event.type == "update_display" || event.type == "result") {
    complete_bundle(content, event.bytes);
    if (event.type == "result") content["execution_count"] = count.value_or(0);
    return {.type = event.type == "display"          ? "display_data"
                    : event.type == "update_display" ? "update_display_data"
                                                     : "execute_result",
            .content = std::move(content),
            .buffers = {}};
  }
  if (event.type == "error") {
    complete_error(content);
    return {.type = "error", .content = std::move(content), .buffers = {}};
  }
  if (event.type == "clear_output")
    return {.type = "clear_output", .content = {{"wait", part(content, "wait", false)}}, .buffers = {}};
  if (event.type.starts_with("comm_")) return comm(event.type, std::move(content), event.bytes);
  return {};
}

json::object error_content(std::string_view name, std::string_view value) {
  return {{"status", "error"},
          {"ename", name},
          {"evalue", value},
          {"traceback", json::array{fmt::format("{}: {}", name, value)}}};
}

json::object error_output(const json::object& reply) {
  json::object content{{"ename", part(reply, "ename", json::string())},
                       {"evalue", part(reply, "evalue", json::string())},
                       {"traceback", part(reply, "traceback", json::array())}};
  return content;
}

json::object execute_reply(const sandbox::Execution& execution) {
  const auto& end = *execution.end();
  const auto count = part(end.reply, "execution_count", execution.count().value_or(0));
  json::object content;
  if (end.reason != Reason::exited) {
    content = ended_from_outside(end);
  } else if (end.status == ExecutionEnd::Status::error) {
    content = error_output(end.reply);
    content["status"] = "error";
  } else {
    content = {{"status", name_of(end.status)},
               {"payload", part(end.reply, "payload", json::array())},
               {"user_expressions", part(end.reply, "user_expressions", json::object())}};
  }
  content["execution_count"] = count;
  return content;
}

}  // namespace cove::doors::jupyter
