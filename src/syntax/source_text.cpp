#include "syntax/source_text.hpp"

#include <algorithm>

namespace cove::syntax {
namespace {

char partner_of(char c) {
  constexpr std::string_view kPairs = "()[]{}<>";
  const auto at = kPairs.find(c);
  return at != npos && at % 2 == 0 ? kPairs[at + 1] : c;
}

}  // namespace

bool among(std::string_view set, char c) {
  return set.find(c) != npos;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}

bool is_name(char c) {
  return is_letter(c) || (c >= '0' && c <= '9');
}

std::size_t line_of(std::string_view code, std::size_t at) {
  return 1 + static_cast<std::size_t>(std::ranges::count(code.substr(0, at), '\n'));
}

std::size_t column_of(std::string_view code, std::size_t at) {
  const auto before = code.substr(0, at);
  const auto line = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0
  const auto characters =
      std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  return static_cast<std::size_t>(characters) + 1;
}

std::size_t after_delimited(std::string_view code, std::size_t from) {
  const char open = code[from];
  const char close = partner_of(open);
  int depth = 1;
  for (auto i = from + 1; i < code.size(); ++i) {
    if (code[i] == '\\') {
      ++i;
    } else if (code[i] == close) {
      if (--depth == 0) return i + 1;
    } else if (code[i] == open) {
      ++depth;
    }
  }
  return npos;
}

bool is_paired(char delimiter) {
  return partner_of(delimiter) != delimiter;
}

std::size_t LineEnds::find(std::size_t from) {
  if (from < from_ || from > to_) {
    from_ = from;
    to_ = std::min(code_.find('\n', from), code_.size());
  }
  return to_;
}

}  // namespace cove::syntax
