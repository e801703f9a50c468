#pragma once

#include <cstddef>
#include <string_view>

#include "syntax/grammar.hpp"
#include "syntax/source_text.hpp"

namespace cove::syntax {

// The form of the comment that starts at `at`; null when none does.
const CommentForm* comment_at(const Grammar& grammar, std::string_view code, std::size_t at);
// The position after a comment that starts at `at`; npos when it is never closed. A comment that takes whole lines may
// end with the code.
std::size_t after_comment(const Grammar& grammar, const CommentForm& form, std::string_view code, LineEnds& lines,
                          std::size_t at);

}  // namespace cove::syntax
