#include "doors/jupyter/message.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "base/text.hpp"
#include "json/fields.hpp"
#include "json/shape.hpp"

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxParts = 1024;
constexpr std::size_t kMaxElements = 200'000;
constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMessageCost = 1024;
constexpr std::size_t kMaxHeader = 64U << 10;  // it is sent back with everything that comes of the request

template <class Number>
Number swapped(Number number) {
  Number out = 0;
  for (std::size_t n = 0; n < sizeof number; ++n) {
    out = static_cast<Number>((out << 8U) | (number & 0xffU));
    number = static_cast<Number>(number >> 8U);
  }
  return out;
}

template <class Number>
Number in_order(Number number, std::endian order) {
  return order == std::endian::native ? number : swapped(number);
}

template <class Number>
void append(std::string& to, Number number, std::endian order) {
  const auto value = in_order(number, order);
  std::array<char, sizeof value> bytes{};
  std::memcpy(bytes.data(), &value, sizeof value);
  to.append(bytes.data(), bytes.size());
}

template <class Number>
Number number_at(std::string_view data, std::size_t at, std::endian order) {
  Number value = 0;
  std::memcpy(&value, data.data() + at, sizeof value);
  return in_order(value, order);
}

tl::unexpected<Error> malformed(std::string_view why) {
  return fail(Errc::invalid, fmt::format("malformed frame: {}", why));
}

Result<json::object> object_from(std::string_view text, std::string_view what) {
  if (cove::json::shape_of(text).elements > kMaxElements)
    return malformed(fmt::format("{} has too many elements", what));
  boost::system::error_code failed;
  auto value = json::parse(text, failed, {}, json::parse_options{.max_depth = kMaxDepth});
  if (failed || !value.is_object()) return malformed(fmt::format("{} is not a JSON object", what));
  return std::move(value.as_object());
}

// Parts of a binary frame: a count, then that many offsets from its beginning. The v1 framing has one more offset, for
// the end.
template <class Number>
Result<std::vector<std::string_view>> parts_of(std::string_view data, std::endian order, bool ends_listed) {
  if (data.size() < sizeof(Number)) return malformed("too short");
  const auto count = number_at<Number>(data, 0, order);
  if (count == 0 || count > kMaxParts) return malformed("bad number of offsets");
  const auto header = (static_cast<std::size_t>(count) + 1) * sizeof(Number);
  if (data.size() < header) return malformed("too short for its offsets");
  std::vector<std::size_t> offsets;
  for (std::size_t n = 1; n <= count; ++n) {
    const auto offset = number_at<Number>(data, n * sizeof(Number), order);
    const auto least = offsets.empty() ? header : offsets.back();
    if (offset < least || offset > data.size()) return malformed("an offset is out of range");
    offsets.push_back(static_cast<std::size_t>(offset));
  }
  if (!ends_listed) offsets.push_back(data.size());
  std::vector<std::string_view> parts;
  for (std::size_t n = 0; n + 1 < offsets.size(); ++n)
    parts.push_back(data.substr(offsets[n], offsets[n + 1] - offsets[n]));
  return parts;
}

// An absent part is empty; one that is no object makes the message malformed.
Result<json::object> part_in(json::object& whole, std::string_view name) {
  auto* value = whole.if_contains(name);
  if (value == nullptr || value->is_null()) return json::object();
  if (!value->is_object()) return malformed(fmt::format("{} is not an object", name));
  return std::move(value->as_object());
}

Result<Message> from_json(std::string_view text) {
  COVE_TRY(auto whole, object_from(text, "the message"));
  Message message;
  const auto channel = cove::json::text_of(whole, "channel");
  message.channel = channel.empty() ? "shell" : channel;
  COVE_TRY(message.header, part_in(whole, "header"));
  COVE_TRY(message.parent_header, part_in(whole, "parent_header"));
  COVE_TRY(message.metadata, part_in(whole, "metadata"));
  COVE_TRY(message.content, part_in(whole, "content"));
  return message;
}

Result<Message> from_legacy_binary(std::string_view data) {
  COVE_TRY(const auto parts, parts_of<std::uint32_t>(data, std::endian::big, false));
  if (!valid_utf8(parts.front())) return malformed("the message is not UTF-8");
  COVE_TRY(auto message, from_json(parts.front()));
  for (const auto& buffer : std::span(parts).subspan(1)) message.buffers.emplace_back(buffer);
  return message;
}

Result<Message> from_v1(std::string_view data) {
  COVE_TRY(const auto parts, parts_of<std::uint64_t>(data, std::endian::little, true));
  if (parts.size() < 5) return malformed("a part is missing");
  for (const auto& part : std::span(parts).first(5)) {
    if (!valid_utf8(part)) return malformed("a part is not UTF-8");
  }
  Message message;
  message.channel = parts[0].empty() ? "shell" : std::string(parts[0]);
  COVE_TRY(message.header, object_from(parts[1], "header"));
  COVE_TRY(message.parent_header, object_from(parts[2], "parent_header"));
  COVE_TRY(message.metadata, object_from(parts[3], "metadata"));
  COVE_TRY(message.content, object_from(parts[4], "content"));
  for (const auto& buffer : std::span(parts).subspan(5)) message.buffers.emplace_back(buffer);
  return message;
}

Result<Message> parse(Framing framing, bool text, std::string_view data) {
  if (framing == Framing::v1) {
    if (text) return malformed("messages of this subprotocol are binary");
    return from_v1(data);
  }
  return text ? from_json(data) : from_legacy_binary(data);
}

std::string legacy_text(const Message& message) {
  const auto& header = message.header;
  std::string text = "{\"channel\":" + json::serialize(json::string(message.channel));
  const auto add = [&text](std::string_view name, const json::value& value) {
    text += fmt::format(",\"{}\":", name);
    text += json::serialize(value);
  };
  add("msg_id", header.contains("msg_id") ? header.at("msg_id") : json::value(""));
  add("msg_type", header.contains("msg_type") ? header.at("msg_type") : json::value(""));
  const auto add_object = [&text](std::string_view name, const json::object& object) {
    text += fmt::format(",\"{}\":", name);
    text += json::serialize(object);
  };
  add_object("header", header);
  add_object("parent_header", message.parent_header);
  add_object("metadata", message.metadata);
  add_object("content", message.content);
  text += ",\"buffers\":[]}";
  return text;
}

// `ends_listed`: as parts_of has it.
template <class Number>
std::string joined(const std::vector<std::string_view>& parts, std::endian order, bool ends_listed) {
  const auto count = parts.size() + (ends_listed ? 1 : 0);
  std::string data;
  append(data, static_cast<Number>(count), order);
  std::size_t offset = (count + 1) * sizeof(Number);
  for (const auto& part : parts) {
    append(data, static_cast<Number>(offset), order);
    offset += part.size();
  }
  if (ends_listed) append(data, static_cast<Number>(offset), order);
  for (const auto& part : parts) data += part;
  return data;
}

}  // namespace

std::string Message::type() const {
  return cove::json::text_of(header, "msg_type");
}

std::size_t Message::bytes() const {
  std::size_t size = kMessageCost;
  for (const auto* part : {&header, &parent_header, &metadata, &content}) size += json::serialize(*part).size();
  for (const auto& buffer : buffers) size += buffer.size();
  return size;
}

Result<Message> decode(Framing framing, bool text, std::string_view data) {
  COVE_TRY(auto message, parse(framing, text, data));
  if (json::serialize(message.header).size() > kMaxHeader) return malformed("the header is too large");
  return message;
}

Frame encode(Framing framing, const Message& message) {
  std::vector<std::string_view> parts;
  if (framing == Framing::v1) {
    const auto header = json::serialize(message.header);
    const auto parent = json::serialize(message.parent_header);
    const auto metadata = json::serialize(message.metadata);
    const auto content = json::serialize(message.content);
    parts = {message.channel, header, parent, metadata, content};
    parts.insert(parts.end(), message.buffers.begin(), message.buffers.end());
    return {.text = false, .data = joined<std::uint64_t>(parts, std::endian::little, true)};
  }
  auto text = legacy_text(message);
  if (message.buffers.empty()) return {.text = true, .data = std::move(text)};
  parts = {text};
  parts.insert(parts.end(), message.buffers.begin(), message.buffers.end());
  return {.text = false, .data = joined<std::uint32_t>(parts, std::endian::big, false)};
}

}  // namespace cove::doors::jupyter
