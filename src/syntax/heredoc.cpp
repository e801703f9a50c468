#include "syntax/heredoc.hpp"

#include <algorithm>

namespace cove::syntax {

std::optional<HeredocStart> read_heredoc(const Grammar& grammar, std::string_view code, std::size_t at) {
  const bool shell = grammar.words == Words::commands;
  const bool php = grammar.heredoc == Heredoc::php;
  const std::string_view sign = php ? "<<<" : "<<";
  if (grammar.heredoc == Heredoc::none || !code.substr(at).starts_with(sign)) return std::nullopt;
  auto from = at + sign.size();
  const auto here = [&](std::string_view set) { return from < code.size() && among(set, code[from]); };
  HeredocStart start{.at = at, .after = 0, .end = {}, .indented = php};
  if (!php && here("~-")) {
    start.indented = true;
    ++from;
  }
  while ((shell || php) && here(" \t")) ++from;
  if (shell && here("\\")) ++from;
  const char quote = here("'\"") ? code[from] : '\0';
  if (quote != '\0') ++from;
  auto end = from;
  while (end < code.size() && (quote != '\0' ? code[end] != quote && code[end] != '\n' : is_name(code[end]))) ++end;
  start.end = code.substr(from, end - from);
  if (start.end.empty() || (quote == '\0' && !is_letter(start.end[0]))) return std::nullopt;
  // Without quotes a lower-case word may be the operand of a shift.
  const bool lower = start.end[0] >= 'a' && start.end[0] <= 'z';
  if (lower && quote == '\0' && (grammar.heredoc == Heredoc::perl || grammar.heredoc == Heredoc::ruby))
    return std::nullopt;
  start.after = end + (quote != '\0' && end < code.size() && code[end] == quote ? 1 : 0);
  return start;
}

std::size_t after_heredoc(const Grammar& grammar, std::string_view code, LineEnds& lines, const HeredocStart& start,
                          std::size_t from) {
  for (auto begin = from; begin < code.size();) {
    const auto end = lines.find(begin);
    auto line = code.substr(begin, end - begin);
    if (start.indented) line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool php = grammar.heredoc == Heredoc::php && line.starts_with(start.end) &&
                     (line.size() == start.end.size() || !is_name(line[start.end.size()]));
    if (php) return static_cast<std::size_t>(line.data() - code.data()) + start.end.size();
    if (line == start.end) return end;
    begin = end + 1;
  }
  return npos;
}

}  // namespace cove::syntax
