#include "syntax/quoting.hpp"

#include <algorithm>
#include <array>

#include "syntax/source_text.hpp"

namespace cove::syntax {

std::optional<std::size_t> after_percent_literal(std::string_view code, std::size_t at) {
  const bool typed = at + 1 < code.size() && among("wWiIqQrsx", code[at + 1]);
  const auto delimiter = at + (typed ? 2 : 1);
  if (delimiter >= code.size() || !among("([{<|!/", code[delimiter])) return std::nullopt;
  return after_delimited(code, delimiter);
}

std::optional<std::size_t> after_perl_quote(std::string_view code, std::string_view word, std::size_t word_at) {
  constexpr auto kOne = std::to_array<std::string_view>({"q", "qq", "qw", "qr", "qx", "m"});
  constexpr auto kTwo = std::to_array<std::string_view>({"s", "tr", "y"});
  const bool two = std::ranges::count(kTwo, word) > 0;
  if (!two && std::ranges::count(kOne, word) == 0) return std::nullopt;
  if (word_at > 0 && among("$@%&>{-", code[word_at - 1])) return std::nullopt;
  const auto after_word = word_at + word.size();
  auto from = code.find_first_not_of(" \t\n", after_word);
  if (from == npos || is_name(code[from]) || among(";=)}", code[from]) ||
      (among("#,", code[from]) && from != after_word))
    return std::nullopt;
  auto end = after_delimited(code, from);
  if (!two || end == npos) return end;
  from = is_paired(code[from]) ? code.find_first_not_of(" \t\n", end) : end - 1;
  return from == npos ? npos : after_delimited(code, from);
}

std::optional<std::size_t> after_slashes(std::string_view code, std::size_t at, std::size_t line_end) {
  bool in_class = false;
  for (auto i = at + 1; i < line_end; ++i) {
    if (code[i] == '\\') {
      ++i;
    } else if (code[i] == '/' && !in_class) {
      return i + 1;
    } else if (code[i] == '[') {
      in_class = true;
    } else if (code[i] == ']') {
      in_class = false;
    }
  }
  return std::nullopt;
}

}  // namespace cove::syntax
