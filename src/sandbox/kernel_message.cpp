#include "sandbox/kernel_message.hpp"

#include "json/shape.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cove::sandbox {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 80;
constexpr std::size_t kMaxElements = 500'000;
constexpr std::size_t kElementCost = 24;
constexpr std::size_t kMaxVersion = 32;

// A MIME type as the RFCs have it, and of a length that goes into a header (docs/attacks.md KP-14).
bool good_mime(std::string_view name) {
  const auto token = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$&-^_.+").find(c) != std::string_view::npos;
  };
  const auto slash = name.find('/');
  if (slash == std::string_view::npos || slash == 0 || slash + 1 == name.size() || name.size() > 255) return false;
  const auto parameters = name.find(';');
  const auto plain = name.substr(0, parameters);
  return std::count(plain.begin(), plain.end(), '/') == 1 &&
         std::all_of(plain.begin(), plain.end(), [&](char c) { return c == '/' || token(c); }) &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

// Something shown that is larger than any message may be. Its type stands first.
bool is_display(std::string_view head) {
  for (const std::string_view type :
       {"display_data", "update_display_data", "execute_result", "error", "comm_open", "comm_msg", "comm_close"}) {
    if (head.starts_with(fmt::format(R"({{"type":"{}",)", type))) return true;
  }
  return false;
}

// "" when it says none that looks like one.
std::string version_in(const json::object& ready) {
  const auto* language = ready.if_contains("language");
  if (language == nullptr || !language->is_object()) return {};
  auto version = text_of(language->as_object(), "version");
  const auto good = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '+' ||
           c == '-';
  };
  return version.size() <= kMaxVersion && std::ranges::all_of(version, good) ? version : std::string();
}

tl::unexpected<Error> too_large(std::string_view head) {
  if (is_display(head)) return fail(Errc::over_limit, "a display is too large");
  return fail(Errc::invalid, "a message is too large");
}

}  // namespace

void check_bundle(json::object& content) {
  auto* data = content.if_contains("data");
  if (data == nullptr || !data->is_object()) {
    content["data"] = json::object();
    return;
  }
  json::object kept;
  for (auto& [name, value] : data->as_object()) {
    if (good_mime(name)) kept.emplace(name, std::move(value));
  }
  *data = std::move(kept);
}

std::string text_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

std::string_view event_of(std::string_view type) {
  if (type == "display_data") return "display";
  if (type == "update_display_data") return "update_display";
  if (type == "execute_result") return "result";
  for (const std::string_view same :
       {"error", "clear_output", "input_request", "comm_open", "comm_msg", "comm_close"}) {
    if (type == same) return same;
  }
  return {};
}

bool is_reply(std::string_view type) {
  return type.ends_with("_reply") || type == "pong" || type == "done";
}

KernelInbox::KernelInbox() : reader_(kMaxMessage) {}

Result<std::optional<KernelMessage>> KernelInbox::add(std::string_view record) {
  auto whole = reader_.add(record);
  if (!whole && whole.error().code == Errc::over_limit) return too_large(reader_.head());
  if (!whole) return fail(Errc::invalid, whole.error().message);
  if (!*whole) return std::optional<KernelMessage>();
  const auto elements = cove::json::shape_of(**whole).elements;
  if (elements > kMaxElements) return too_large(**whole);
  boost::system::error_code failed;
  auto parsed = json::parse(**whole, failed, {}, json::parse_options{.max_depth = kMaxDepth});
  if (failed || !parsed.is_object()) return fail(Errc::invalid, "a message is not a JSON object");
  auto& object = parsed.as_object();
  KernelMessage message{.type = text_of(object, "type"), .bytes = (*whole)->size() + elements * kElementCost};
  if (message.type == "ready") {
    message.text = version_in(object);
    return std::optional(std::move(message));
  }
  if (message.type == "failed") {
    message.text = text_of(object, "message");
    return std::optional(std::move(message));
  }
  const auto* parent = object.if_contains("parent");
  auto* content = object.if_contains("content");
  if (message.type.empty() || parent == nullptr || content == nullptr || !content->is_object())
    return fail(Errc::invalid, "a message lacks a field");
  if (parent->is_int64()) message.parent = static_cast<std::uint64_t>(parent->as_int64());
  message.content = std::move(content->as_object());
  return std::optional(std::move(message));
}

}  // namespace cove::sandbox
