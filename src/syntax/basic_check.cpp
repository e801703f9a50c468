// Long because it is one scanner: each construct moves the same position and decides what the next character means.
#include "syntax/basic_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "syntax/grammar.hpp"

namespace cove::syntax {
namespace {

constexpr auto npos = std::string_view::npos;
constexpr std::size_t kMaxOpen = 1000;
constexpr int kLostHeredocs = 8;  // each costs a look at the rest of the code

bool among(std::string_view set, char c) {
  return set.find(c) != npos;
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name(char c) {
  return is_letter(c) || (c >= '0' && c <= '9');
}
char partner_of(char c) {
  constexpr std::string_view kPairs = "()[]{}<>";
  const auto at = kPairs.find(c);
  return at != npos && at % 2 == 0 ? kPairs[at + 1] : c;
}

// A statement of a language whose blocks are indented.
struct Statement {
  std::size_t at = 0;
  std::size_t indent = 0;
  std::string_view first;  // its first word
  bool colon = false;      // outside of brackets
  bool colon_last = false;
};
constexpr auto kCompound = std::to_array<std::string_view>(
    {"if", "elif", "else", "for", "while", "try", "except", "finally", "with", "def", "class"});

class Scan {
 public:
  Scan(const Grammar& grammar, std::string_view code) : grammar_(grammar), code_(code) {}

  std::optional<BasicProblem> run() {
    if (!grammar_.begin.empty()) skip_text();
    while (at_ < code_.size() && !problem_) step();
    if (!problem_ && grammar_.indented && stack_.empty()) end_statement();
    if (!problem_ && expects_block_) report(code_.size(), "expected an indented block");
    if (!problem_ && !stack_.empty())
      report(stack_.back().at, fmt::format("'{}' was never closed", stack_.back().text));
    return problem_;
  }

 private:
  struct Open {
    std::size_t at = 0;
    std::string_view text;
    std::string_view close;
    const StringForm* back = nullptr;  // code inside a string
    std::size_t string_at = 0;
  };
  struct Pending {
    std::size_t at = 0;
    std::string_view end;
    bool indented = false;
  };

  void step() {
    const char c = code_[at_];
    if (c == '\n') return end_line();
    if (among(" \t\r\f\v", c)) {
      ++at_;
      return;
    }
    if (at_line_start() && !grammar_.last_line.empty() && starts(grammar_.last_line)) {
      at_ = code_.size();
      return;
    }
    if (!grammar_.end.empty() && starts(grammar_.end)) return skip_text();
    if (comment()) return;
    if (grammar_.indented && c == '\\') {
      at_ += 2;
      return;
    }
    begin_statement();
    if (heredoc() || string() || percent() || slashes() || character() || variable()) return;
    if (is_word(c)) return word();
    if (bracket(c)) return;
    if (grammar_.indented && c == ':' && stack_.empty()) statement_->colon = statement_->colon_last = true;
    ++at_;
    value_ = false;
    if (among(";&|`", c)) command_ = true;
  }

  // --- looking around

  [[nodiscard]] bool starts(std::string_view text) const { return code_.substr(at_).starts_with(text); }
  [[nodiscard]] char next(std::size_t ahead = 1) const {
    return at_ + ahead < code_.size() ? code_[at_ + ahead] : '\0';
  }
  [[nodiscard]] char before() const { return at_ > 0 ? code_[at_ - 1] : '\n'; }
  [[nodiscard]] bool at_line_start() const { return before() == '\n'; }
  [[nodiscard]] bool is_shell() const { return grammar_.words == Words::commands; }
  [[nodiscard]] bool is_word(char c) const { return is_shell() ? !among(" \t\r\n;&|()<>\"'`\\", c) : is_name(c); }
  // Asked again and again of one line, and looked for once.
  std::size_t line_end(std::size_t from) {
    if (from < line_from_ || from > line_to_) {
      line_from_ = from;
      line_to_ = std::min(code_.find('\n', from), code_.size());
    }
    return line_to_;
  }
  [[nodiscard]] std::size_t line_of(std::size_t at) const {
    return 1 + static_cast<std::size_t>(std::ranges::count(code_.substr(0, at), '\n'));
  }

  void report(std::size_t at, std::string message) {
    if (problem_) return;
    const auto before_it = code_.substr(0, at);
    const auto begin = before_it.rfind('\n') == npos ? 0 : before_it.rfind('\n') + 1;
    const auto characters = std::ranges::count_if(
        before_it.substr(begin), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
    problem_ = {.line = line_of(at), .column = static_cast<std::size_t>(characters) + 1, .message = std::move(message)};
  }

  void skip_text() {
    const auto found = code_.find(grammar_.begin, at_);
    at_ = found == npos ? code_.size() : found + grammar_.begin.size();
    while (at_ < code_.size() && (is_letter(code_[at_]) || code_[at_] == '=')) ++at_;
    value_ = false;
  }

  // --- comments

  [[nodiscard]] bool stands(Where where) const {
    switch (where) {
      case Where::anywhere:
        return true;
      case Where::word_start:
        return among(" \t\n;&|`", before());
      case Where::line_start:
        return at_line_start();
      case Where::file_start:
        return at_ == 0;
    }
    return false;
  }

  bool comment() {
    for (const auto& form : grammar_.comments) {
      if (!starts(form.open) || !stands(form.where)) continue;
      const char after = next(form.open.size());
      if (after != '\0' && among(form.unless_followed_by, after)) continue;
      if (form.close == "\n")
        skip_line_comment();
      else
        skip_comment(form);
      return true;
    }
    return false;
  }

  void skip_line_comment() {
    auto end = line_end(at_);
    if (!grammar_.end.empty()) end = std::min(end, code_.substr(0, end).find(grammar_.end, at_));
    at_ = end;
  }

  void skip_comment(const CommentForm& form) {
    const auto from = at_;
    at_ += form.open.size();
    int depth = 1;
    while (depth > 0 && at_ < code_.size()) {
      if (starts(form.close)) {
        at_ += form.close.size();
        --depth;
      } else if (form.nests && starts(form.open)) {
        at_ += form.open.size();
        ++depth;
      } else {
        ++at_;
      }
    }
    // One that takes whole lines may end with the file.
    if (depth > 0 && form.where != Where::line_start) report(from, "comment was never closed");
    if (form.where == Where::line_start) at_ = line_end(at_);
  }

  // --- strings and other literals

  bool string() {
    for (const auto& form : grammar_.strings) {
      if (!starts(form.open)) continue;
      const auto from = at_;
      const bool leads_into_code = !form.prefixed || is_name(before());
      at_ += form.open.size();
      read_string(form, from, leads_into_code);
      return true;
    }
    return false;
  }

  void read_string(const StringForm& form, std::size_t from, bool leads_into_code) {
    for (; at_ < code_.size(); ++at_) {
      if (form.escape != '\0' && code_[at_] == form.escape && !starts(form.close)) {
        ++at_;
        continue;
      }
      if (starts(form.close)) {
        at_ += form.close.size();
        // A raw string may end in quotes of its own.
        while (form.escape == '\0' && form.close.size() == 3 && at_ < code_.size() && code_[at_] == form.close[0])
          ++at_;
        value_ = true;
        command_ = false;
        return;
      }
      if (leads_into_code && !form.into.empty() && starts(form.into)) {
        open({.at = at_, .text = form.into, .close = {&form.out, 1}, .back = &form, .string_at = from});
        at_ += form.into.size();
        value_ = false;
        command_ = true;
        return;
      }
      if (code_[at_] == '\n' && !form.over_lines) break;
    }
    report(from, "string was never closed");
  }

  // From the delimiter at `from` to after its partner; npos: there is none.
  [[nodiscard]] std::size_t after_delimited(std::size_t from) const {
    const char open = code_[from];
    const char close = partner_of(open);
    int depth = 1;
    for (auto i = from + 1; i < code_.size(); ++i) {
      if (code_[i] == '\\') {
        ++i;
      } else if (code_[i] == close) {
        if (--depth == 0) return i + 1;
      } else if (code_[i] == open) {
        ++depth;
      }
    }
    return npos;
  }

  void go_after(std::size_t from, std::size_t end) {
    if (end == npos) return report(from, "quoted text was never closed");
    at_ = end;
    value_ = true;
  }

  // And not an operator. "puts /x/" is a literal, "a / b" is none.
  [[nodiscard]] bool may_be_literal() const {
    return !value_ || (grammar_.words == Words::lines && before() == ' ' && !among(" =\n", next()));
  }

  // %w[…] of Ruby.
  bool percent() {
    if (grammar_.quoting != Quoting::ruby || code_[at_] != '%' || !may_be_literal()) return false;
    const auto delimiter = at_ + (among("wWiIqQrsx", next()) ? 2 : 1);
    if (delimiter >= code_.size() || !among("([{<|!/", code_[delimiter])) return false;
    go_after(at_, after_delimited(delimiter));
    return true;
  }

  // q(…), s/…/…/ of Perl, after its word.
  bool quoted_by(std::string_view word, std::size_t word_at) {
    constexpr auto kOne = std::to_array<std::string_view>({"q", "qq", "qw", "qr", "qx", "m"});
    constexpr auto kTwo = std::to_array<std::string_view>({"s", "tr", "y"});
    const bool two = std::ranges::count(kTwo, word) > 0;
    if (grammar_.quoting != Quoting::perl || (!two && std::ranges::count(kOne, word) == 0)) return false;
    if (word_at > 0 && among("$@%&>{-", code_[word_at - 1])) return false;
    auto from = code_.find_first_not_of(" \t\n", at_);
    if (from == npos || is_name(code_[from]) || among(";=)}", code_[from]) || (among("#,", code_[from]) && from != at_))
      return false;
    auto end = after_delimited(from);
    if (two && end != npos) {
      const bool paired = partner_of(code_[from]) != code_[from];
      from = paired ? code_.find_first_not_of(" \t\n", end) : end - 1;
      end = from == npos ? npos : after_delimited(from);
    }
    go_after(word_at, end);
    return true;
  }

  bool slashes() {
    if (!grammar_.slashes || code_[at_] != '/' || !may_be_literal() || at_ < no_slashes_before_) return false;
    const auto end = line_end(at_);
    bool in_class = false;
    for (auto i = at_ + 1; i < end; ++i) {
      if (code_[i] == '\\') {
        ++i;
      } else if (code_[i] == '/' && !in_class) {
        at_ = i + 1;
        value_ = true;
        return true;
      } else if (code_[i] == '[') {
        in_class = true;
      } else if (code_[i] == ']') {
        in_class = false;
      }
    }
    no_slashes_before_ = end;
    return false;
  }

  bool character() {
    const char c = code_[at_];
    if (grammar_.backslash_character && c == '\\') {
      at_ += 2;
      value_ = true;
      return true;
    }
    if (grammar_.quoting == Quoting::ruby && c == '?' && !value_ && among("()[]{}'\"`/@#", next())) {
      at_ += 2;
      value_ = true;
      return true;
    }
    if (!grammar_.characters || c != '\'') return false;
    auto end = at_ + 2;
    while (end < code_.size() && (static_cast<unsigned char>(code_[end]) & 0xC0) == 0x80) ++end;
    if (next() == '\\') end = code_.substr(0, std::min(code_.size(), at_ + 12)).find('\'', at_ + 3);
    at_ = end < code_.size() && code_[end] == '\'' ? end + 1 : at_ + 1;
    value_ = true;
    return true;
  }

  // ${x%)} of shells; $# and $' of Perl.
  bool variable() {
    if (code_[at_] != '$') return false;
    if (is_shell() && next() == '{' && at_ >= no_braces_before_) {
      const auto end = after_delimited(at_ + 1);
      no_braces_before_ = end == npos ? code_.size() : 0;
      at_ = end == npos ? at_ + 2 : end;
      command_ = false;
      return true;
    }
    if (grammar_.quoting != Quoting::perl) return false;
    at_ += among("#'\"`/\\]", next()) ? 2 : 1;
    value_ = true;
    return true;
  }

  // --- heredocs

  bool heredoc() {
    const std::string_view sign = grammar_.heredoc == Heredoc::php ? "<<<" : "<<";
    if (grammar_.heredoc == Heredoc::none || !starts(sign)) return false;
    if (is_shell() && next(2) == '<') {
      at_ += 3;
      return true;
    }
    auto from = at_ + sign.size();
    Pending pending{.at = at_, .end = {}, .indented = grammar_.heredoc == Heredoc::php};
    if (from < code_.size() && among("~-", code_[from]) && grammar_.heredoc != Heredoc::php) {
      pending.indented = true;
      ++from;
    }
    const bool may_be_apart = is_shell() || grammar_.heredoc == Heredoc::php;
    while (may_be_apart && from < code_.size() && among(" \t", code_[from])) ++from;
    if (is_shell() && from < code_.size() && code_[from] == '\\') ++from;
    const char quote = from < code_.size() && among("'\"", code_[from]) ? code_[from] : '\0';
    if (quote != '\0') ++from;
    auto end = from;
    while (end < code_.size() && (quote != '\0' ? code_[end] != quote && code_[end] != '\n' : is_name(code_[end])))
      ++end;
    pending.end = code_.substr(from, end - from);
    if (pending.end.empty() || (quote == '\0' && !is_letter(pending.end[0]))) return false;
    // Without quotes small letters may be a shift.
    const bool small = pending.end[0] >= 'a' && pending.end[0] <= 'z';
    if (small && quote == '\0' && (grammar_.heredoc == Heredoc::perl || grammar_.heredoc == Heredoc::ruby))
      return false;
    pending_.push_back(pending);
    at_ = end + (quote != '\0' && end < code_.size() && code_[end] == quote ? 1 : 0);
    value_ = true;
    return true;
  }

  void skip_heredocs() {
    for (const auto& pending : std::exchange(pending_, {})) {
      const auto end = after_heredoc(pending);
      if (end != npos)
        at_ = end;
      else if (!is_shell())
        return report(pending.at, fmt::format("the text up to {} was never closed", pending.end));
      else if (++lost_heredocs_ > kLostHeredocs)
        at_ = code_.size();
    }
  }

  std::size_t after_heredoc(const Pending& pending) {
    for (auto begin = at_; begin < code_.size();) {
      const auto end = line_end(begin);
      auto line = code_.substr(begin, end - begin);
      if (pending.indented) line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      const bool php = grammar_.heredoc == Heredoc::php && line.starts_with(pending.end) &&
                       (line.size() == pending.end.size() || !is_name(line[pending.end.size()]));
      if (php) return static_cast<std::size_t>(line.data() - code_.data()) + pending.end.size();
      if (line == pending.end) return end;
      begin = end + 1;
    }
    return npos;
  }

  // --- brackets and blocks

  bool bracket(char c) {
    const auto which = grammar_.brackets.find(c);
    if (which == npos) return false;
    const auto from = at_++;
    if (which % 2 == 0) {
      open({.at = from, .text = grammar_.brackets.substr(which, 1), .close = grammar_.brackets.substr(which + 1, 1)});
      value_ = false;
      command_ = true;
    } else {
      value_ = c != '}' || grammar_.words == Words::lines;
      command_ = false;
      close(from, grammar_.brackets.substr(which, 1));
    }
    return true;
  }

  void open(Open what) {
    if (stack_.size() == kMaxOpen) return report(what.at, fmt::format("more than {} things are open", kMaxOpen));
    stack_.push_back(what);
  }

  void close(std::size_t from, std::string_view text) {
    const bool in_case = is_shell() && !stack_.empty() && stack_.back().text == "case";
    if (text == ")" && in_case) {  // of a pattern
      command_ = true;
      return;
    }
    if (stack_.empty()) return report(from, fmt::format("'{}' closes nothing", text));
    const auto top = stack_.back();
    if (top.close != text)
      return report(from, fmt::format("'{}' does not close '{}' of line {}", text, top.text, line_of(top.at)));
    stack_.pop_back();
    if (top.back != nullptr) read_string(*top.back, top.string_at, true);
    if (text == ")" && is_shell() && !stack_.empty() && stack_.back().text == "case") command_ = true;
  }

  void word() {
    const auto from = at_;
    while (at_ < code_.size() && is_word(code_[at_]) && !(is_shell() && code_[at_] == '$' && at_ > from)) ++at_;
    if (grammar_.words == Words::lines && at_ < code_.size() && among("?!", code_[at_]) && next() != '=') ++at_;
    const auto text = code_.substr(from, at_ - from);
    if (statement_ && statement_->first.empty() && statement_->at == from) statement_->first = text;
    const bool goes_on = std::ranges::count(grammar_.go_on, text) > 0;
    if (quoted_by(text, from)) return;
    if (counts(from, text)) block(from, text);
    if (is_shell()) of_for_ = command_ && text == "for" ? 1 : of_for_ == 1 ? 2 : 0;
    value_ = !goes_on;
    command_ = is_shell() && (text == "{" || text == "!" || (command_ && goes_on));
  }

  // Whether a word that could be of a block is one.
  [[nodiscard]] bool counts(std::size_t from, std::string_view text) const {
    if (is_shell()) return command_ || (of_for_ == 2 && text == "do");
    const char left = from > 0 ? code_[from - 1] : '\n';
    if (among(".@$:", left)) return false;
    const bool key = grammar_.words == Words::lines && at_ < code_.size() && code_[at_] == ':' && next() != ':';
    return !key && !text.empty();
  }

  void block(std::size_t from, std::string_view text) {
    for (const auto& form : grammar_.blocks) {
      if (form.close == text) return close(from, text);
      if (form.open != text) continue;
      if (form.modifies && value_) return;
      if (text == "do" && std::exchange(expects_do_, false)) return;
      if (grammar_.words == Words::lines && text == "def" && is_endless_def()) return;
      expects_do_ = form.has_its_do;
      return open({.at = from, .text = form.open, .close = form.close});
    }
  }

  // def twice(x) = x * 2
  bool is_endless_def() {
    const auto line = code_.substr(at_, line_end(at_) - at_);
    auto i = std::min(line.find_first_not_of(" \t"), line.size());
    while (i < line.size() && (is_name(line[i]) || among(".?!", line[i]))) ++i;
    if (i < line.size() && line[i] == '(') {
      int depth = 0;
      for (; i < line.size(); ++i) {
        if (line[i] == '(') ++depth;
        if (line[i] == ')' && --depth == 0) break;
      }
      ++i;
    }
    const auto equals = std::min(line.find_first_not_of(" \t", i), line.size());
    return equals > i && line.substr(equals).starts_with("= ");
  }

  // --- lines

  void end_line() {
    if (grammar_.indented && stack_.empty()) end_statement();
    ++at_;
    command_ = true;
    expects_do_ = false;
    if (grammar_.words == Words::lines) value_ = false;
    if (!pending_.empty()) skip_heredocs();
  }

  void begin_statement() {
    if (!grammar_.indented || statement_) {
      if (statement_) statement_->colon_last = false;
      return;
    }
    const auto line = code_.substr(0, at_).rfind('\n') + 1;  // npos + 1 is 0
    std::size_t indent = 0;
    for (auto i = line; i < at_; ++i) indent = code_[i] == '\t' ? (indent / 8 + 1) * 8 : indent + 1;
    if (expects_block_ && indent <= expects_block_->indent)
      report(at_, fmt::format("expected an indented block after '{}' on line {}", expects_block_->first,
                              line_of(expects_block_->at)));
    expects_block_.reset();
    statement_ = {.at = at_, .indent = indent, .first = {}};
  }

  void end_statement() {
    if (!statement_) return;
    const auto statement = *std::exchange(statement_, std::nullopt);
    if (std::ranges::count(kCompound, statement.first) == 0) return;
    if (!statement.colon) return report(statement.at, "expected ':'");
    if (statement.colon_last) expects_block_ = statement;
  }

  const Grammar& grammar_;
  std::string_view code_;
  std::size_t at_ = 0;
  std::vector<Open> stack_;
  std::vector<Pending> pending_;
  int lost_heredocs_ = 0;
  std::size_t line_from_ = 1;
  std::size_t line_to_ = 0;
  std::size_t no_slashes_before_ = 0;
  std::size_t no_braces_before_ = 0;
  bool value_ = false;       // what came last is one
  bool command_ = true;      // one may begin here
  bool expects_do_ = false;  // that is part of a loop
  int of_for_ = 0;           // how many words of "for x do" came
  std::optional<Statement> statement_;
  std::optional<Statement> expects_block_;
  std::optional<BasicProblem> problem_;
};

}  // namespace

std::optional<BasicProblem> basic_check(std::string_view language, std::string_view code) {
  const auto* grammar = find_grammar(language);
  if (grammar == nullptr) return std::nullopt;
  return Scan(*grammar, code).run();
}

}  // namespace cove::syntax
