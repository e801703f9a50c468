#include "fastapi/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "base/text.hpp"

namespace cove::fastapi {
namespace {

constexpr std::size_t kDepth = 900;    // Python gives up at about a thousand
constexpr std::size_t kDigits = 4300;  // as sys.get_int_max_str_digits()
constexpr std::size_t kMaxValues = 100'000;

void append_utf8(std::string& out, std::uint32_t c) {
  const auto byte = [&](std::uint32_t value) { out += static_cast<char>(value); };
  if (c < 0x80) {
    byte(c);
  } else if (c < 0x800) {
    byte(0xc0 | (c >> 6));
    byte(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    byte(0xe0 | (c >> 12));
    byte(0x80 | ((c >> 6) & 0x3f));
    byte(0x80 | (c & 0x3f));
  } else {
    byte(0xf0 | (c >> 18));
    byte(0x80 | ((c >> 12) & 0x3f));
    byte(0x80 | ((c >> 6) & 0x3f));
    byte(0x80 | (c & 0x3f));
  }
}

bool digit(char c) {
  return c >= '0' && c <= '9';
}

// Follows CPython 3.11's _json.c step by step, for the same messages and positions.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::variant<Value, Malformed, Unreadable> run() {
    std::size_t at = skip(0);
    Value value;
    const bool done = scan(at, value, 0);
    if (unreadable_) return Unreadable{};
    if (done) {
      at = skip(at);
      if (at == text_.size()) return value;
      refuse("Extra data", at);
    }
    return Malformed{.position = characters(error_at_), .message = error_};
  }

 private:
  [[nodiscard]] bool is(std::size_t at, char c) const { return at < text_.size() && text_[at] == c; }
  [[nodiscard]] std::size_t skip(std::size_t at) const {
    return std::min(text_.find_first_not_of(" \t\n\r", at), text_.size());
  }
  [[nodiscard]] std::size_t characters(std::size_t bytes) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        text_.substr(0, bytes), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  }
  bool refuse(const char* message, std::size_t at) {
    error_ = message;
    error_at_ = at;
    return false;
  }
  bool give_up() {
    unreadable_ = true;
    return false;
  }

  bool scan(std::size_t& at, Value& out, std::size_t depth) {
    if (depth > kDepth || ++values_ > kMaxValues) return give_up();
    if (at >= text_.size()) return refuse("Expecting value", at);
    const auto word = [&](std::string_view wanted, Value::Kind kind) {
      if (text_.substr(at, wanted.size()) != wanted) return false;
      out.kind = kind;
      out.text = wanted;
      at += wanted.size();
      return true;
    };
    switch (text_[at]) {
      case '"':
        out.kind = Value::Kind::text;
        return scan_text(at, out.text);
      case '{':
        return scan_object(at, out, depth);
      case '[':
        return scan_array(at, out, depth);
      case 'n':
        if (word("null", Value::Kind::null)) return true;
        break;
      case 't':
        out.flag = true;
        if (word("true", Value::Kind::boolean)) return true;
        break;
      case 'f':
        if (word("false", Value::Kind::boolean)) return true;
        break;
      case 'N':
        if (word("NaN", Value::Kind::real)) return true;
        break;
      case 'I':
        if (word("Infinity", Value::Kind::real)) return true;
        break;
      case '-':
        if (word("-Infinity", Value::Kind::real)) return true;
        break;
      default:
        break;
    }
    return scan_number(at, out);
  }

  bool scan_number(std::size_t& at, Value& out) {
    std::size_t end = at;
    if (is(end, '-')) ++end;
    if (end >= text_.size() || !digit(text_[end])) return refuse("Expecting value", at);
    const auto skip_digits = [&](std::size_t from) {
      while (from < text_.size() && digit(text_[from])) ++from;
      return from;
    };
    end = text_[end] == '0' ? end + 1 : skip_digits(end);
    out.kind = Value::Kind::integer;
    if (is(end, '.') && end + 1 < text_.size() && digit(text_[end + 1])) {
      out.kind = Value::Kind::real;
      end = skip_digits(end + 1);
    }
    if (is(end, 'e') || is(end, 'E')) {
      std::size_t from = end + 1;
      if (is(from, '+') || is(from, '-')) ++from;
      const auto to = skip_digits(from);
      if (to > from) {
        out.kind = Value::Kind::real;
        end = to;
      }
    }
    if (out.kind == Value::Kind::integer && end - at > kDigits) return give_up();
    out.text = text_.substr(at, end - at);
    at = end;
    return true;
  }

  // Four hex digits, which must not end the text. `u` is the position of the letter.
  bool scan_hex(std::size_t u, std::uint32_t& out) {
    if (u + 5 >= text_.size()) return refuse("Invalid \\uXXXX escape", u);
    out = 0;
    const auto* begin = text_.data() + u + 1;
    const auto [end, ec] = std::from_chars(begin, begin + 4, out, 16);
    if (ec != std::errc() || end != begin + 4) return refuse("Invalid \\uXXXX escape", u);
    return true;
  }

  bool scan_text(std::size_t& at, std::string& out) {
    const auto begin = at++;
    out.clear();
    while (true) {
      const auto from = at;
      while (at < text_.size() && text_[at] != '"' && text_[at] != '\\') {
        if (static_cast<unsigned char>(text_[at]) < 0x20) return refuse("Invalid control character at", at);
        ++at;
      }
      out += text_.substr(from, at - from);
      if (at >= text_.size()) return refuse("Unterminated string starting at", begin);
      if (text_[at++] == '"') return true;
      if (at >= text_.size()) return refuse("Unterminated string starting at", begin);
      if (text_[at] != 'u') {
        constexpr std::string_view kFrom = "\"\\/bfnrt";
        constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
        const auto found = kFrom.find(text_[at]);
        if (found == std::string_view::npos) return refuse("Invalid \\escape", at - 1);
        out += kTo[found];
        ++at;
        continue;
      }
      std::uint32_t c = 0;
      if (!scan_hex(at, c)) return false;
      at += 5;
      const bool high = c >= 0xd800 && c < 0xdc00;
      if (high && at + 6 < text_.size() && text_[at] == '\\' && text_[at + 1] == 'u') {
        std::uint32_t low = 0;
        if (!scan_hex(at + 1, low)) return false;
        if (low >= 0xdc00 && low < 0xe000) {
          c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
          at += 6;
        }
      }
      append_utf8(out, c);
    }
  }

  bool scan_array(std::size_t& at, Value& out, std::size_t depth) {
    out.kind = Value::Kind::array;
    at = skip(at + 1);
    if (is(at, ']')) return ++at, true;
    while (true) {
      if (!scan(at, out.items.emplace_back(), depth + 1)) return false;
      at = skip(at);
      if (is(at, ']')) return ++at, true;
      if (!is(at, ',')) return refuse("Expecting ',' delimiter", at);
      at = skip(at + 1);
    }
  }

  bool scan_object(std::size_t& at, Value& out, std::size_t depth) {
    out.kind = Value::Kind::object;
    at = skip(at + 1);
    if (is(at, '}')) return ++at, true;
    while (true) {
      if (!is(at, '"')) return refuse("Expecting property name enclosed in double quotes", at);
      std::string name;
      if (!scan_text(at, name)) return false;
      at = skip(at);
      if (!is(at, ':')) return refuse("Expecting ':' delimiter", at);
      at = skip(at + 1);
      out.members.push_back({.name = std::move(name), .value = {}});
      if (!scan(at, out.members.back().value, depth + 1)) return false;
      at = skip(at);
      if (is(at, '}')) break;
      if (!is(at, ',')) return refuse("Expecting ',' delimiter", at);
      at = skip(at + 1);
    }
    ++at;
    merge(out.members);
    return true;
  }

  // As in a dict: the position of the first, the value of the last.
  static void merge(std::vector<Member>& members) {
    std::unordered_map<std::string_view, std::size_t> places;
    std::vector<std::size_t> repeated;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const auto [found, fresh] = places.emplace(members[i].name, i);
      if (fresh) continue;
      members[found->second].value = std::move(members[i].value);
      repeated.push_back(i);
    }
    if (repeated.empty()) return;
    places.clear();
    std::vector<Member> kept;
    auto next = repeated.begin();
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (next != repeated.end() && *next == i)
        ++next;
      else
        kept.push_back(std::move(members[i]));
    }
    members = std::move(kept);
  }

  std::string_view text_;
  std::string error_;
  std::size_t error_at_ = 0;
  std::size_t values_ = 0;
  bool unreadable_ = false;
};

void put_text(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
          out += c;
    }
  }
  out += '"';
}

// As Python's repr of a float: the shortest text that round-trips, always with a point or exponent.
void put_real(std::string& out, const std::string& text) {
  double value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    out += "null";
    return;
  }
  const auto shortest = fmt::format("{}", value);
  out += shortest;
  if (shortest.find_first_of(".e") == std::string::npos) out += ".0";
}

void put(std::string& out, const Value& value) {
  switch (value.kind) {
    case Value::Kind::null:
      out += "null";
      break;
    case Value::Kind::boolean:
      out += value.flag ? "true" : "false";
      break;
    case Value::Kind::integer:
      out += value.text == "-0" ? "0" : value.text;
      break;
    case Value::Kind::real:
      put_real(out, value.text);
      break;
    case Value::Kind::text:
      out += json_text(value.text);
      break;
    case Value::Kind::array: {
      out += '[';
      bool first = true;
      for (const auto& item : value.items) {
        if (!std::exchange(first, false)) out += ',';
        put(out, item);
      }
      out += ']';
      break;
    }
    case Value::Kind::object: {
      out += '{';
      bool first = true;
      for (const auto& [name, member] : value.members) {
        if (!std::exchange(first, false)) out += ',';
        out += json_text(name);
        out += ':';
        put(out, member);
      }
      out += '}';
      break;
    }
  }
}

}  // namespace

const Value* Value::member(std::string_view name) const {
  const auto found = std::ranges::find(members, name, &Member::name);
  return found == members.end() ? nullptr : &found->value;
}

std::variant<Value, Malformed, Unreadable> parse_json(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (!valid_utf8(text)) return Unreadable{};
  return Parser(text).run();
}

std::string json_text(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  if (valid_utf8(text))
    put_text(out, text);
  else
    put_text(out, replace_invalid_utf8(text));
  return out;
}

std::string to_json(const Value& value) {
  std::string out;
  put(out, value);
  return out;
}

}  // namespace cove::fastapi
