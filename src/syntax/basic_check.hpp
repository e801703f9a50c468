#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cove::syntax {

struct BasicProblem {
  std::size_t line = 1;
  std::size_t column = 1;  // in characters
  std::string message;
};

// Checks the structure of a program, for languages without an installed checker: brackets, strings, comments, blocks.
// A reported problem is real; code without one may still be invalid. One pass over the code.
std::optional<BasicProblem> basic_check(std::string_view language, std::string_view code);

}  // namespace cove::syntax
