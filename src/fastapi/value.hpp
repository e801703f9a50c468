#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cove::fastapi {

// A JSON value as Python's json module sees it: whole numbers of any size stay whole, NaN is a number, a text may hold
// half of a surrogate pair (then it is not UTF-8), of two members with one name the later counts.
struct Member;
struct Value {
  enum class Kind : std::uint8_t { null, boolean, integer, real, text, array, object };

  Kind kind = Kind::null;
  bool flag = false;            // of a boolean
  std::string text;             // of a text; of a number, as it was written
  std::vector<Value> items;     // of an array
  std::vector<Member> members;  // of an object

  [[nodiscard]] const Value* member(std::string_view name) const;
};
struct Member {
  std::string name;
  Value value;
};

// Python's error for invalid JSON.
struct Malformed {
  std::size_t position = 0;  // in characters
  std::string message;       // "Expecting value"
};
// Unreadable: not UTF-8, nested too deeply, a number with more digits than Python accepts, or too many values.
struct Unreadable {};

std::variant<Value, Malformed, Unreadable> parse_json(std::string_view text);

// Compact, without escaping non-ASCII. NaN and infinities become null, invalid UTF-8 U+FFFD.
std::string to_json(const Value& value);
std::string json_text(std::string_view text);

}  // namespace cove::fastapi
