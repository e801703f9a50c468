#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cove::syntax {

// A program that reads code of one language without running it, and how it says what it found.
struct Checker {
  std::string_view language;
  std::string_view label;  // as messages name the language
  // What a line of its output looks like: {line}, {column} and {message} are taken, {any} is passed over, {file} is the
  // name of the file, everything else is as it stands. Empty: nothing checks this language but basic_check().
  std::span<const std::string_view> patterns = {};
  // What the file is called, one after the other: good code is good under one of them. Empty: as the language says.
  std::span<const std::string_view> extensions = {};
  bool caret = false;               // a line of blanks and a ^ below the code says where
  std::size_t first_column = 1;     // how it counts them
  std::string_view no_fault = "";   // a complaint with this is none about the code's syntax
  bool hash_is_no_comment = false;  // which people write who come from elsewhere
};

const Checker& checker_of(std::string_view language);

struct Finding {
  std::optional<std::size_t> line;
  std::optional<std::size_t> column;
  std::string message;
};
// What a checker said of the file. What it said without a form is the message.
Finding read_finding(const Checker& checker, std::string_view file, std::string_view output);

}  // namespace cove::syntax
