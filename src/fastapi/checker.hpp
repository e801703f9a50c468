#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fastapi/value.hpp"

namespace cove::fastapi {

// The JSON list for "detail". Never empty.
struct Problems {
  std::string list;
};

// Parses a body with its Content-Type ("": none). Problems, or nullopt when it cannot be read at all.
std::variant<Value, Problems, std::monostate> read_body(std::string_view body, std::string_view content_type);

// The problems of a form without a file, or with text in its place.
Problems missing_file();
Problems file_is_text(std::string_view text);

// A location in a request, as JSON without brackets: "body","files",0
inline constexpr std::string_view kBody = "\"body\"";
std::string place(std::string_view above, std::string_view name);

// Collects all errors of a request, with the messages and in the order of pydantic. A wrong value leaves `out`
// unchanged; an absent value is no error here.
class Checker {
 public:
  void complain(std::string_view type, std::string_view loc, std::string_view message, std::string_view input,
                std::string_view ctx = {});

  // Whether `body` is an object at all.
  bool object(const Value& body, std::string_view loc);

  // The member, or null; reports an error if it is required.
  enum class Presence : std::uint8_t { required, optional };
  const Value* member(const Value& body, std::string_view above, std::string_view name, Presence presence);

  void text(const Value* value, const std::string& loc, std::string& out);
  // A JSON integer, strictly. Values out of range are clamped to the type.
  void whole(const Value* value, const std::string& loc, std::int64_t least, std::int64_t most, std::int64_t& out);
  // The same, but also accepts "12" and 12.0.
  void integer(const Value* value, const std::string& loc, std::int64_t& out);
  void boolean(const Value* value, const std::string& loc, bool& out);
  void texts(const Value* value, const std::string& loc, std::vector<std::string>& out);
  // Any object.
  void dictionary(const Value* value, const std::string& loc, Value& out);

  [[nodiscard]] bool good() const { return list_.empty(); }
  [[nodiscard]] Problems problems() const { return {.list = "[" + list_ + "]"}; }

 private:
  std::string list_;
};

}  // namespace cove::fastapi
