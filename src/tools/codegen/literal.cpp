#include "tools/codegen/literal.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/text.hpp"

namespace cove::tools::codegen {
namespace {

namespace json = boost::json;

// The code point that begins at `at`, of valid UTF-8; `at` moves behind it.
char32_t take_code_point(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  char32_t point = lead & (0x3fU >> more);
  for (int i = 0; i < more && at < text.size(); ++i)
    point = point << 6 | (static_cast<unsigned char>(text[at++]) & 0x3f);
  return point;
}

std::string escaped(char32_t point) {
  if (point == '\n') return "\\n";
  if (point == '\r') return "\\r";
  if (point == '\t') return "\\t";
  const auto number = static_cast<std::uint32_t>(point);
  if (number < 0x100) return fmt::format("\\x{:02x}", number);
  if (number < 0x10000) return fmt::format("\\u{:04x}", number);
  return fmt::format("\\U{:08x}", number);
}

// Without what stands around it. `quote` is escaped too.
std::string body_of(std::string_view raw, char quote) {
  const auto text = valid_utf8(raw) ? std::string(raw) : replace_invalid_utf8(raw);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto point = take_code_point(text, at);
    if (point == static_cast<char32_t>(quote) || point == '\\')
      out += {'\\', static_cast<char>(point)};
    else if (point >= 0x20 && point < 0x7f)
      out += static_cast<char>(point);
    else
      out += escaped(point);
  }
  return out;
}

std::string single_quoted(std::string_view text) {
  const bool doubles = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  return doubles ? string_literal(text) : "'" + body_of(text, '\'') + "'";
}

std::string number(double value) {
  if (!std::isfinite(value)) return "None";
  auto text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

template <typename Quote>
std::string source_of(const json::value& value, Quote quote) {
  switch (value.kind()) {
    case json::kind::null:
      return "None";
    case json::kind::bool_:
      return value.get_bool() ? "True" : "False";
    case json::kind::int64:
      return fmt::format("{}", value.get_int64());
    case json::kind::uint64:
      return fmt::format("{}", value.get_uint64());
    case json::kind::double_:
      return number(value.get_double());
    case json::kind::string:
      return quote(std::string_view(value.get_string()));
    case json::kind::array: {
      std::string out = "[";
      for (const auto& element : value.get_array()) out += (out.size() > 1 ? ", " : "") + source_of(element, quote);
      return out + "]";
    }
    case json::kind::object: {
      std::string out = "{";
      for (const auto& [name, member] : value.get_object())
        out += (out.size() > 1 ? ", " : "") + quote(std::string_view(name)) + ": " + source_of(member, quote);
      return out + "}";
    }
  }
  return "None";
}

}  // namespace

std::string string_literal(std::string_view text) {
  return "\"" + body_of(text, '"') + "\"";
}

std::string repr(const json::value& value) {
  return source_of(value, single_quoted);
}

std::string constant(const json::value& value) {
  return source_of(value, string_literal);
}

std::string docstring(std::string_view raw) {
  const auto text = valid_utf8(raw) ? std::string(raw) : replace_invalid_utf8(raw);
  std::string out;
  std::size_t quotes = 0;  // in a row, at the end of what was written
  for (std::size_t at = 0; at < text.size();) {
    const auto point = take_code_point(text, at);
    if (point == '"') {
      ++quotes;
      continue;
    }
    const bool many = quotes >= 3;
    for (; quotes > 0; --quotes) out += many ? "\\\"" : "\"";
    if (point == '\\')
      out += "\\\\";
    else if (point == '\n' || (point >= 0x20 && point < 0x7f))
      out += static_cast<char>(point);
    else if (point >= 0xa1 && point < 0x2000 && point != 0xad && point != 0x61c && point != 0x180e)
      out.append(text, at - (point < 0x800 ? 2 : 3), point < 0x800 ? 2 : 3);  // letters that people read
    else if (point >= 0x3000 && point < 0xd800)
      out.append(text, at - 3, 3);
    else
      out += escaped(point);
  }
  for (; quotes > 0; --quotes) out += "\\\"";
  return "\"\"\"" + out + "\"\"\"";
}

}  // namespace cove::tools::codegen
