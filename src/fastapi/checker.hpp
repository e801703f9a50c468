#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fastapi/value.hpp"

namespace cove::fastapi {

// The JSON list that "detail" is. Never empty.
struct Problems {
  std::string list;
};

// The whole body, and its Content-Type ("": none was sent). Problems, or, when it could not be read at all, nothing.
std::variant<Value, Problems, std::monostate> read_body(std::string_view body, std::string_view content_type);

// Of a form without its file, or with a text in its place.
Problems missing_file();
Problems file_is_text(std::string_view text);

// Where in a request something is, as JSON without brackets: "body","files",0
inline constexpr std::string_view kBody = "\"body\"";
std::string place(std::string_view above, std::string_view name);

// Finds everything that is wrong with a request, in the words and the order of pydantic. What is wrong leaves `out`
// as it was; a value that is not there is no fault here.
class Checker {
 public:
  void complain(std::string_view type, std::string_view loc, std::string_view message, std::string_view input,
                std::string_view ctx = {});

  // Whether `body` is an object at all.
  bool object(const Value& body, std::string_view loc);

  // The member, if it is there; a complaint if it has to be.
  enum class Presence : std::uint8_t { required, optional };
  const Value* member(const Value& body, std::string_view above, std::string_view name, Presence presence);

  void text(const Value* value, const std::string& loc, std::string& out);
  // A whole number and nothing that only looks like one. Numbers too large for the type are as large as it can be.
  void whole(const Value* value, const std::string& loc, std::int64_t least, std::int64_t most, std::int64_t& out);
  // The same for who takes "12" and 12.0 as well.
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
