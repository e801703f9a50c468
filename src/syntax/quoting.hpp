#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace cove::syntax {

// Literals with delimiters of their own. Each returns the position after the literal; npos when it is never closed,
// nullopt when there is none.

// %w[…] of Ruby, whose % is at `at`.
std::optional<std::size_t> after_percent_literal(std::string_view code, std::size_t at);
// q(…) and s/…/…/ of Perl: the delimiter follows `word`, which is at `word_at`.
std::optional<std::size_t> after_perl_quote(std::string_view code, std::string_view word, std::size_t word_at);
// /…/ in one line, which ends at `line_end`. A slash in [] does not close it; one without a partner is no literal.
std::optional<std::size_t> after_slashes(std::string_view code, std::size_t at, std::size_t line_end);

}  // namespace cove::syntax
