#include "egress/host_name.hpp"

#include <idn2.h>

#include <algorithm>
#include <memory>

#include "base/text.hpp"

namespace cove::egress {
namespace {

constexpr std::size_t kLongestName = 253;
constexpr std::size_t kLongestLabel = 63;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f');
}

tl::unexpected<Error> wrong_name(std::string_view text, std::string_view why) {
  return fail(Errc::invalid, fmt::format("'{}' is not a host name: {}", shown_name(text), why));
}

// inet_aton(3) and browsers read whatever ends with a number as an address.
bool ends_with_number(std::string_view name) {
  const auto dot = name.rfind('.');
  const auto last = dot == std::string_view::npos ? name : name.substr(dot + 1);
  if (std::ranges::all_of(last, is_digit)) return true;
  return last.starts_with("0x") && std::ranges::all_of(last.substr(2), is_hex);
}

}  // namespace

std::string shown_name(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 80)) out += c >= ' ' && c < '\x7f' ? c : '?';
  return text.size() > 80 ? out + "…" : out;
}

Result<std::string> canonical_ascii_name(std::string_view text) {
  if (text.empty()) return wrong_name(text, "it is empty");
  std::string name(text);
  if (name.back() == '.') name.pop_back();
  if (name.empty() || name.size() > kLongestName) return wrong_name(text, "names have 1 to 253 characters");
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!is_digit(c) && !(c >= 'a' && c <= 'z') && c != '-' && c != '_' && c != '.')
      return wrong_name(text, "names consist of letters, digits, '-' and '.'");
  }
  for (std::string_view rest = name; !rest.empty() || name.back() == '.';) {
    const bool last = rest.find('.') == std::string_view::npos;
    const auto label = take_until(rest, '.');
    if (label.empty()) return wrong_name(text, "a part between dots is empty");
    if (label.size() > kLongestLabel) return wrong_name(text, "a part between dots has more than 63 characters");
    if (label.front() == '-' || label.back() == '-')
      return wrong_name(text, "a part between dots begins or ends with '-'");
    if (last) break;
  }
  if (ends_with_number(name))
    return wrong_name(text, "it would be read as an address; write addresses as 192.0.2.7 or [2001:db8::1]");
  return name;
}

Result<std::string> canonical_name(std::string_view text) {
  if (std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return canonical_ascii_name(text);
  if (text.size() > 4 * kLongestName) return wrong_name(text, "names have 1 to 253 characters");
  if (!valid_utf8(text) || text.find('\0') != std::string_view::npos) return wrong_name(text, "it is not UTF-8");
  char* found = nullptr;
  const int failed = ::idn2_to_ascii_8z(std::string(text).c_str(), &found, IDN2_NONTRANSITIONAL | IDN2_NFC_INPUT);
  const std::unique_ptr<char, void (*)(void*)> owner(found, ::idn2_free);
  if (failed != IDN2_OK) return wrong_name(text, ::idn2_strerror(failed));
  return canonical_ascii_name(found);
}

}  // namespace cove::egress
