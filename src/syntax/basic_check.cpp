#include "syntax/basic_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "syntax/comment.hpp"
#include "syntax/grammar.hpp"
#include "syntax/heredoc.hpp"
#include "syntax/indentation.hpp"
#include "syntax/quoting.hpp"
#include "syntax/source_text.hpp"

namespace cove::syntax {
namespace {

constexpr std::size_t kMaxOpen = 1000;
constexpr int kLostHeredocs = 8;  // each costs a scan of the rest of the code

class Scan {
 public:
  Scan(const Grammar& grammar, std::string_view code)
      : grammar_(grammar), code_(code), lines_(code), indentation_(code) {}

  std::optional<BasicProblem> run() {
    if (!grammar_.begin.empty()) skip_text();
    while (at_ < code_.size() && !problem_) step();
    if (grammar_.indented && stack_.empty()) report(indentation_.end_statement());
    report(indentation_.finish());
    if (!problem_ && !stack_.empty())
      report(stack_.back().at, fmt::format("'{}' was never closed", stack_.back().text));
    return problem_;
  }

 private:
  struct Open {
    std::size_t at = 0;
    std::string_view text;
    std::string_view close;
    const StringForm* back = nullptr;  // of embedded code: the string to return to
    std::size_t string_at = 0;
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
    if (grammar_.indented) report(indentation_.token(at_));
    if (heredoc() || string() || percent() || slashes() || character() || variable()) return;
    if (is_word(c)) return word();
    if (bracket(c)) return;
    if (grammar_.indented && c == ':' && stack_.empty()) indentation_.colon();
    ++at_;
    value_ = false;
    if (among(";&|`", c)) command_ = true;
  }

  // --- helpers

  [[nodiscard]] bool starts(std::string_view text) const { return code_.substr(at_).starts_with(text); }
  [[nodiscard]] char next(std::size_t ahead = 1) const {
    return at_ + ahead < code_.size() ? code_[at_ + ahead] : '\0';
  }
  [[nodiscard]] char before() const { return at_ > 0 ? code_[at_ - 1] : '\n'; }
  [[nodiscard]] bool at_line_start() const { return before() == '\n'; }
  [[nodiscard]] bool is_shell() const { return grammar_.words == Words::commands; }
  [[nodiscard]] bool is_word(char c) const { return is_shell() ? !among(" \t\r\n;&|()<>\"'`\\", c) : is_name(c); }
  std::size_t line_end(std::size_t from) { return lines_.find(from); }

  // The first problem counts.
  void report(std::size_t at, std::string message) {
    if (problem_) return;
    problem_ = {.line = line_of(code_, at), .column = column_of(code_, at), .message = std::move(message)};
  }
  void report(std::optional<Indentation::Problem> found) {
    if (found) report(found->at, std::move(found->message));
  }

  void skip_text() {
    const auto found = code_.find(grammar_.begin, at_);
    at_ = found == npos ? code_.size() : found + grammar_.begin.size();
    while (at_ < code_.size() && (is_letter(code_[at_]) || code_[at_] == '=')) ++at_;
    value_ = false;
  }

  // --- comments

  bool comment() {
    const auto* form = comment_at(grammar_, code_, at_);
    if (form == nullptr) return false;
    const auto end = after_comment(grammar_, *form, code_, lines_, at_);
    if (end == npos) report(at_, "comment was never closed");
    at_ = std::min(end, code_.size());
    return true;
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
        // A raw string may end with quotes that belong to it.
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

  void go_after(std::size_t from, std::size_t end) {
    if (end == npos) return report(from, "quoted text was never closed");
    at_ = end;
    value_ = true;
  }

  // Whether a literal, not an operator, can start here: "puts /x/", but not "a / b".
  [[nodiscard]] bool may_be_literal() const {
    return !value_ || (grammar_.words == Words::lines && before() == ' ' && !among(" =\n", next()));
  }

  bool percent() {
    if (grammar_.quoting != Quoting::ruby || code_[at_] != '%' || !may_be_literal()) return false;
    const auto end = after_percent_literal(code_, at_);
    if (end) go_after(at_, *end);
    return end.has_value();
  }

  bool quoted_by(std::string_view word, std::size_t word_at) {
    if (grammar_.quoting != Quoting::perl) return false;
    const auto end = after_perl_quote(code_, word, word_at);
    if (end) go_after(word_at, *end);
    return end.has_value();
  }

  bool slashes() {
    if (!grammar_.slashes || code_[at_] != '/' || !may_be_literal() || at_ < no_slashes_before_) return false;
    const auto end = after_slashes(code_, at_, line_end(at_));
    if (end)
      go_after(at_, *end);
    else
      no_slashes_before_ = line_end(at_);
    return end.has_value();
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
      const auto end = after_delimited(code_, at_ + 1);
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
    // A here string of a shell: <<< word.
    if (is_shell() && grammar_.heredoc != Heredoc::none && starts("<<<")) {
      at_ += 3;
      return true;
    }
    const auto start = read_heredoc(grammar_, code_, at_);
    if (!start) return false;
    pending_.push_back(*start);
    at_ = start->after;
    value_ = true;
    return true;
  }

  void skip_heredocs() {
    for (const auto& pending : std::exchange(pending_, {})) {
      const auto end = after_heredoc(grammar_, code_, lines_, pending, at_);
      if (end != npos)
        at_ = end;
      else if (!is_shell())
        return report(pending.at, fmt::format("the text up to {} was never closed", pending.end));
      else if (++lost_heredocs_ > kLostHeredocs)
        at_ = code_.size();
    }
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
    if (stack_.size() == kMaxOpen)
      return report(what.at, fmt::format("more than {} brackets and blocks are open", kMaxOpen));
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
      return report(from, fmt::format("'{}' does not close '{}' of line {}", text, top.text, line_of(code_, top.at)));
    stack_.pop_back();
    if (top.back != nullptr) read_string(*top.back, top.string_at, true);
    if (text == ")" && is_shell() && !stack_.empty() && stack_.back().text == "case") command_ = true;
  }

  void word() {
    const auto from = at_;
    while (at_ < code_.size() && is_word(code_[at_]) && !(is_shell() && code_[at_] == '$' && at_ > from)) ++at_;
    if (grammar_.words == Words::lines && at_ < code_.size() && among("?!", code_[at_]) && next() != '=') ++at_;
    const auto text = code_.substr(from, at_ - from);
    indentation_.word(from, text);
    const bool goes_on = std::ranges::count(grammar_.go_on, text) > 0;
    if (quoted_by(text, from)) return;
    if (counts(from, text)) block(from, text);
    if (is_shell()) of_for_ = command_ && text == "for" ? 1 : of_for_ == 1 ? 2 : 0;
    value_ = !goes_on;
    command_ = is_shell() && (text == "{" || text == "!" || (command_ && goes_on));
  }

  // Whether a word counts as a block keyword here.
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
    if (grammar_.indented && stack_.empty()) report(indentation_.end_statement());
    ++at_;
    command_ = true;
    expects_do_ = false;
    if (grammar_.words == Words::lines) value_ = false;
    if (!pending_.empty()) skip_heredocs();
  }

  const Grammar& grammar_;
  std::string_view code_;
  std::size_t at_ = 0;
  std::vector<Open> stack_;
  std::vector<HeredocStart> pending_;  // their text starts on the next line
  int lost_heredocs_ = 0;
  LineEnds lines_;
  std::size_t no_slashes_before_ = 0;
  std::size_t no_braces_before_ = 0;
  bool value_ = false;       // the last token is a value
  bool command_ = true;      // a command may start here
  bool expects_do_ = false;  // a loop's own "do" has to follow
  int of_for_ = 0;           // how many words of "for x do" have been read
  Indentation indentation_;
  std::optional<BasicProblem> problem_;
};

}  // namespace

std::optional<BasicProblem> basic_check(std::string_view language, std::string_view code) {
  const auto* grammar = find_grammar(language);
  if (grammar == nullptr) return std::nullopt;
  return Scan(*grammar, code).run();
}

}  // namespace cove::syntax
