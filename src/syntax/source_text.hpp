#pragma once

#include <cstddef>
#include <string_view>

namespace cove::syntax {

inline constexpr auto npos = std::string_view::npos;

bool among(std::string_view set, char c);
// A letter, an underscore, or a byte of a character that is not ASCII.
bool is_letter(char c);
// The same, or a digit.
bool is_name(char c);

// Lines and columns count from 1, columns in characters.
std::size_t line_of(std::string_view code, std::size_t at);
std::size_t column_of(std::string_view code, std::size_t at);

// The position after the delimiter that closes the one at `from`; npos when there is none. Brackets nest, and a
// backslash escapes.
std::size_t after_delimited(std::string_view code, std::size_t from);
// Whether a delimiter is closed by another character: ( by ), but / by /.
bool is_paired(char delimiter);

// Finds the ends of lines. Keeps the last one: a scanner asks about one line many times.
class LineEnds {
 public:
  explicit LineEnds(std::string_view code) : code_(code) {}
  // The end of the line that has `from`: its newline, or the end of the code.
  std::size_t find(std::size_t from);

 private:
  std::string_view code_;
  std::size_t from_ = 1;
  std::size_t to_ = 0;
};

}  // namespace cove::syntax
