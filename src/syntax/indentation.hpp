#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cove::syntax {

// Checks compound statements of a language with indented blocks: each has a colon, and a block that is indented more.
// Called by the scanner as it finds tokens; comments and blank lines are not reported to it.
class Indentation {
 public:
  explicit Indentation(std::string_view code) : code_(code) {}

  struct Problem {
    std::size_t at = 0;
    std::string message;
  };
  // A token at `at`; the first one of a line outside brackets starts a statement.
  std::optional<Problem> token(std::size_t at);
  void word(std::size_t at, std::string_view text);
  // A colon outside brackets.
  void colon();
  // The end of a line outside brackets.
  std::optional<Problem> end_statement();
  // The end of the code.
  [[nodiscard]] std::optional<Problem> finish() const;

 private:
  struct Statement {
    std::size_t at = 0;
    std::size_t indent = 0;
    std::string_view first;  // its first word
    bool colon = false;
    bool colon_last = false;
  };
  std::string_view code_;
  std::optional<Statement> statement_;
  std::optional<Statement> expects_block_;  // after this one
};

}  // namespace cove::syntax
