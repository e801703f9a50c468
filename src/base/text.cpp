#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace cove {
namespace {

struct Sequence {
  std::size_t length;  // bytes to step over
  bool valid;
};

// The well-formed sequence at the front of `bytes`, or the longest prefix of one (Unicode 15, table 3-7).
Sequence front_sequence(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  const std::uint8_t lead = at(0);
  if (lead < 0x80) return {1, true};
  std::size_t length = 0;
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf)
    length = 2;
  else if (lead >= 0xe0 && lead <= 0xef)
    length = 3;
  else if (lead >= 0xf0 && lead <= 0xf4)
    length = 4;
  else
    return {1, false};
  if (lead == 0xe0) low = 0xa0;
  if (lead == 0xed) high = 0x9f;
  if (lead == 0xf0) low = 0x90;
  if (lead == 0xf4) high = 0x8f;
  for (std::size_t i = 1; i < length; ++i) {
    if (i >= bytes.size() || at(i) < low || at(i) > high) return {i, false};
    low = 0x80;
    high = 0xbf;
  }
  return {length, true};
}

}  // namespace

std::string_view take_until(std::string_view& rest, char separator) {
  const auto part = rest.substr(0, rest.find(separator));
  rest.remove_prefix(std::min(rest.size(), part.size() + 1));
  return part;
}

bool valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sequence = front_sequence(bytes);
    if (!sequence.valid) return false;
    bytes.remove_prefix(sequence.length);
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const auto sequence = front_sequence(bytes);
    out.append(sequence.valid ? bytes.substr(0, sequence.length) : std::string_view("\xef\xbf\xbd"));
    bytes.remove_prefix(sequence.length);
  }
  return out;
}

std::size_t unfinished_utf8(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;
    const std::size_t whole = byte >= 0xf0 && byte < 0xf5 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc2 ? 2 : 1;
    return whole > back && byte < 0xf5 ? back : 0;
  }
  return 0;
}

std::string one_line(std::string_view text, std::size_t most) {
  constexpr std::string_view kCut = "…";
  const bool cut = text.size() > most;
  if (cut) {
    text = text.substr(0, most - std::min(most, kCut.size()));
    text.remove_suffix(unfinished_utf8(text));
  }
  auto line = replace_invalid_utf8(text);
  for (auto& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (cut) line += kCut;
  return line;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t have = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j) bits = (bits << 8) | (j < have ? static_cast<std::uint8_t>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j) out.push_back(j <= have ? kAlphabet[(bits >> (18 - 6 * j)) & 63] : '=');
  }
  return out;
}

std::optional<std::string> from_base64(std::string_view text, Padding padding) {
  const auto digit = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
  };
  const bool whole = text.size() % 4 == 0;
  for (int pads = 0; whole && pads < 2 && text.ends_with('='); ++pads) text.remove_suffix(1);
  if ((!whole && padding == Padding::required) || text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    const int six = digit(c);
    if (six < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(six);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    out.push_back(static_cast<char>((bits >> have) & 0xff));
  }
  // Bits that no byte takes must be zero: one text per value.
  if ((bits & ((1U << have) - 1)) != 0) return std::nullopt;
  return out;
}

std::string to_base64url(std::string_view bytes) {
  auto text = base64(bytes);
  while (text.ends_with('=')) text.pop_back();
  for (auto& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string plain(text);
  for (auto& c : plain) {
    if (c == '+' || c == '/') return std::nullopt;
    c = c == '-' ? '+' : c == '_' ? '/' : c;
  }
  return from_base64(plain, Padding::optional);
}

}  // namespace cove
