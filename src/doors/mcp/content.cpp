#include "doors/mcp/content.hpp"

#include <fmt/format.h>

#include <array>

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

struct Kind {
  std::string_view extension;
  std::string_view mime;
};
constexpr auto kKinds = std::to_array<Kind>({
    {".txt", "text/plain"},        {".md", "text/markdown"},
    {".csv", "text/csv"},          {".tsv", "text/csv"},
    {".json", "application/json"}, {".html", "text/html"},
    {".xml", "application/xml"},   {".yaml", "application/yaml"},
    {".yml", "application/yaml"},  {".toml", "application/toml"},
    {".log", "text/plain"},        {".py", "text/x-python"},
    {".js", "text/javascript"},    {".ts", "application/typescript"},
    {".sh", "application/x-sh"},   {".png", "image/png"},
    {".jpg", "image/jpeg"},        {".jpeg", "image/jpeg"},
    {".gif", "image/gif"},         {".webp", "image/webp"},
    {".svg", "image/svg+xml"},     {".pdf", "application/pdf"},
    {".zip", "application/zip"},   {".gz", "application/gzip"},
    {".tar", "application/x-tar"}, {".wav", "audio/wav"},
    {".mp3", "audio/mpeg"},        {".parquet", "application/vnd.apache.parquet"},
});

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

std::string_view mime_of(std::string_view path) {
  for (const auto& kind : kKinds) {
    if (path.ends_with(kind.extension)) return kind.mime;
  }
  return "application/octet-stream";
}

json::object answer(std::string text, json::object structured) {
  return {{"content", json::array{text_block(std::move(text))}},
          {"structuredContent", std::move(structured)},
          {"isError", false}};
}

json::object sorry(std::string sentence) {
  auto block = text_block(std::move(sentence));
  block["annotations"] = {{"role", "error"}};
  return {{"content", json::array{std::move(block)}}, {"isError", true}};
}

}  // namespace cove::doors::mcp
