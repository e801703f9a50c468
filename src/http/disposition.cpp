#include "http/disposition.hpp"

#include <fmt/format.h>

namespace cove::http {

std::string attachment(std::string_view name) {
  std::string plain;
  std::string encoded;
  bool whole = true;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool text = byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\';
    if (text)
      plain += c;
    else if (byte >= 0xc0)
      plain += '_';  // one for each character beyond ASCII
    whole = whole && text;
    const bool literal = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         std::string_view("!#$&+-.^_`|~").find(c) != std::string_view::npos;
    if (literal)
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", byte);
  }
  auto out = fmt::format("attachment; filename=\"{}\"", plain);
  if (!whole) out += "; filename*=UTF-8''" + encoded;
  return out;
}

}  // namespace cove::http
