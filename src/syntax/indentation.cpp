#include "syntax/indentation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "syntax/source_text.hpp"

namespace cove::syntax {
namespace {

constexpr auto kCompound = std::to_array<std::string_view>(
    {"if", "elif", "else", "for", "while", "try", "except", "finally", "with", "def", "class"});

}  // namespace

std::optional<Indentation::Problem> Indentation::token(std::size_t at) {
  if (statement_) {
    statement_->colon_last = false;
    return std::nullopt;
  }
  const auto line = code_.substr(0, at).rfind('\n') + 1;  // npos + 1 is 0
  std::size_t indent = 0;
  for (auto i = line; i < at; ++i) indent = code_[i] == '\t' ? (indent / 8 + 1) * 8 : indent + 1;
  statement_ = {.at = at, .indent = indent, .first = {}};
  const auto before = std::exchange(expects_block_, std::nullopt);
  if (!before || indent > before->indent) return std::nullopt;
  return Problem{.at = at,
                 .message = fmt::format("expected an indented block after '{}' on line {}", before->first,
                                        line_of(code_, before->at))};
}

void Indentation::word(std::size_t at, std::string_view text) {
  if (statement_ && statement_->first.empty() && statement_->at == at) statement_->first = text;
}

void Indentation::colon() {
  if (statement_) statement_->colon = statement_->colon_last = true;
}

std::optional<Indentation::Problem> Indentation::end_statement() {
  if (!statement_) return std::nullopt;
  const auto statement = *std::exchange(statement_, std::nullopt);
  if (std::ranges::count(kCompound, statement.first) == 0) return std::nullopt;
  if (!statement.colon) return Problem{.at = statement.at, .message = "expected ':'"};
  if (statement.colon_last) expects_block_ = statement;
  return std::nullopt;
}

std::optional<Indentation::Problem> Indentation::finish() const {
  if (!expects_block_) return std::nullopt;
  return Problem{.at = code_.size(), .message = "expected an indented block"};
}

}  // namespace cove::syntax
