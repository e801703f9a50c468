#include "doors/mcp/content.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;

// What a path may have in a URI as it is; `also` beside it.
std::string percent_encoded(std::string_view text, std::string_view also) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~").find(c) != std::string_view::npos || also.find(c) != also.npos;
    if (plain)
      out += c;
    else
      out += fmt::format("%{:02X}", byte);
  }
  return out;
}

}  // namespace

json::object text_block(std::string text) {
  return {{"type", "text"}, {"text", std::move(text)}};
}

json::object image_block(std::string_view bytes, std::string_view mime) {
  return {{"type", "image"}, {"data", base64(bytes)}, {"mimeType", mime}};
}

json::object link_block(std::string_view session_id, std::string_view path, std::uint64_t size) {
  return {{"type", "resource_link"},
          {"uri", workspace_uri(session_id, path)},
          {"name", path},
          {"mimeType", mime_of(path)},
          {"size", size}};
}

std::string workspace_uri(std::string_view session_id, std::string_view path) {
  return fmt::format("workspace://{}/{}", percent_encoded(session_id, ""), percent_encoded(path, "/"));
}

json::object answer(std::string text, json::object structured) {
  return {{"content", json::array{text_block(std::move(text))}},
          {"structuredContent", std::move(structured)},
          {"isError", false}};
}

json::object tool_error(std::string sentence) {
  auto block = text_block(std::move(sentence));
  block["annotations"] = {{"role", "error"}};
  return {{"content", json::array{std::move(block)}}, {"isError", true}};
}

}  // namespace cove::doors::mcp
