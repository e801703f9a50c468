#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "syntax/grammar.hpp"
#include "syntax/source_text.hpp"

namespace cove::syntax {

// A heredoc: its start in the code (<<END), and the word that ends its text on a later line.
struct HeredocStart {
  std::size_t at = 0;
  std::size_t after = 0;  // the end of the start
  std::string_view end;
  bool indented = false;  // the last line may be indented
};

// The heredoc that starts at `at`; nullopt when none does, also where << may be a shift.
std::optional<HeredocStart> read_heredoc(const Grammar& grammar, std::string_view code, std::size_t at);
// The position after the text of a heredoc, which starts in the line at `from`; npos when it has no end.
std::size_t after_heredoc(const Grammar& grammar, std::string_view code, LineEnds& lines, const HeredocStart& start,
                          std::size_t from);

}  // namespace cove::syntax
