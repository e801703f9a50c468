#include "doors/mcp/escaped.hpp"

namespace cove::doors::mcp {
namespace {

std::size_t escaped_size(char c) {
  switch (c) {
    case '"':
    case '\\':
    case '\b':
    case '\f':
    case '\n':
    case '\r':
    case '\t':
      return 2;
    default:
      return static_cast<unsigned char>(c) < 0x20 ? 6 : 1;
  }
}

bool inside_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

std::size_t escaped_size(std::string_view text) {
  std::size_t size = 0;
  for (const char c : text) size += escaped_size(c);
  return size;
}

std::string_view fitting(std::string_view text, std::size_t max_size) {
  if (text.size() <= max_size / 6) return text;
  std::size_t size = 0;
  std::size_t end = 0;
  while (end < text.size() && size + escaped_size(text[end]) <= max_size) size += escaped_size(text[end++]);
  while (end > 0 && end < text.size() && inside_character(text[end])) --end;
  return text.substr(0, end);
}

}  // namespace cove::doors::mcp
