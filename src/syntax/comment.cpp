#include "syntax/comment.hpp"

#include <algorithm>

namespace cove::syntax {
namespace {

bool may_start(Where where, std::string_view code, std::size_t at) {
  const char before = at > 0 ? code[at - 1] : '\n';
  switch (where) {
    case Where::anywhere:
      return true;
    case Where::word_start:
      return among(" \t\n;&|`", before);
    case Where::line_start:
      return before == '\n';
    case Where::file_start:
      return at == 0;
  }
  return false;
}

}  // namespace

const CommentForm* comment_at(const Grammar& grammar, std::string_view code, std::size_t at) {
  for (const auto& form : grammar.comments) {
    if (!code.substr(at).starts_with(form.open) || !may_start(form.where, code, at)) continue;
    const auto after = at + form.open.size();
    if (after < code.size() && code[after] != '\0' && among(form.unless_followed_by, code[after])) continue;
    return &form;
  }
  return nullptr;
}

std::size_t after_comment(const Grammar& grammar, const CommentForm& form, std::string_view code, LineEnds& lines,
                          std::size_t at) {
  if (form.close == "\n") {
    const auto end = lines.find(at);
    return grammar.end.empty() ? end : std::min(end, code.substr(0, end).find(grammar.end, at));
  }
  at += form.open.size();
  int depth = 1;
  while (depth > 0 && at < code.size()) {
    if (code.substr(at).starts_with(form.close)) {
      at += form.close.size();
      --depth;
    } else if (form.nests && code.substr(at).starts_with(form.open)) {
      at += form.open.size();
      ++depth;
    } else {
      ++at;
    }
  }
  if (form.where == Where::line_start) return lines.find(at);
  return depth > 0 ? npos : at;
}

}  // namespace cove::syntax
