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

// Looks at the structure of a program, where nothing is there that could read it: brackets, strings, comments, blocks.
// What it finds is wrong; what it finds nothing in may be wrong still. One pass over the code.
std::optional<BasicProblem> basic_check(std::string_view language, std::string_view code);

}  // namespace cove::syntax
