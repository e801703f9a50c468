#include "base/log_fields.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cove {
namespace {

bool key_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// The value at the beginning of `rest`, which it is taken from.
std::string take_value(std::string_view& rest) {
  std::string value;
  if (!rest.starts_with('"')) {
    const auto end = std::min(rest.find(' '), rest.size());
    value = rest.substr(0, end);
    rest.remove_prefix(end);
    return value;
  }
  rest.remove_prefix(1);
  while (!rest.empty() && rest.front() != '"') {
    const bool escaped = rest.size() > 1 && rest[0] == '\\' && (rest[1] == '"' || rest[1] == '\\');
    if (escaped) rest.remove_prefix(1);
    value += rest.front();
    rest.remove_prefix(1);
  }
  if (!rest.empty()) rest.remove_prefix(1);
  return value;
}

}  // namespace

std::string log_value(std::string_view text, std::size_t limit) {
  const bool cut = text.size() > limit;
  text = text.substr(0, limit);
  const bool plain = !cut && !text.empty() && std::ranges::all_of(text, [](char c) {
    return c > ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '=';
  });
  if (plain) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c >= ' ' && c < '\x7f') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (cut) out += "...";
  out += '"';
  return out;
}

LogLine parse_log_line(std::string_view line) {
  LogLine parts;
  while (!line.empty()) {
    const auto key_end = static_cast<std::size_t>(std::ranges::find_if_not(line, key_char) - line.begin());
    if (key_end > 0 && key_end < line.size() && line[key_end] == '=') {
      LogField field{.key = std::string(line.substr(0, key_end)), .value = {}};
      line.remove_prefix(key_end + 1);
      field.value = take_value(line);
      parts.fields.push_back(std::move(field));
    } else {
      const auto end = std::min(line.find(' '), line.size());
      parts.words += (parts.words.empty() ? "" : " ") + std::string(line.substr(0, end));
      line.remove_prefix(end);
    }
    if (line.starts_with(' ')) line.remove_prefix(1);
  }
  return parts;
}

}  // namespace cove
