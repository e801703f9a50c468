#include "doors/mcp/es_module.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

namespace cove::doors::mcp {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

// Copies code with blanks in the place of what is text in it. Quotes stay, so that it is seen where text was, and
// newlines go where a line of text could be taken for one of code.
class Blanker {
 public:
  explicit Blanker(std::string_view code) : code_(code) { out_.reserve(code.size()); }

  std::string run() {
    while (at_ < code_.size()) {
      if (in_template())
        template_text();
      else
        step();
    }
    return std::move(out_);
  }

 private:
  static constexpr int kText = -1;  // in levels_: the text of a template literal; else open braces of its ${

  [[nodiscard]] bool in_template() const { return !levels_.empty() && levels_.back() == kText; }
  [[nodiscard]] bool starts(std::string_view word) const { return code_.substr(at_).starts_with(word); }
  void keep() { out_ += code_[at_++]; }
  void blank(std::size_t count) {
    const auto end = std::min(code_.size(), at_ + count);
    for (; at_ < end; ++at_) out_ += ' ';
  }
  void blank_through(std::string_view end) {
    const auto found = code_.find(end, at_ + 2);
    blank(found == std::string_view::npos ? code_.size() - at_ : found + end.size() - at_);
  }

  void step() {
    const char c = code_[at_];
    if (starts("//")) {
      blank(std::min(code_.find('\n', at_), code_.size()) - at_);
    } else if (starts("/*")) {
      blank_through("*/");
    } else if (c == '"' || c == '\'') {
      quoted(c);
    } else if (c == '/' && begins_expression()) {
      expression();
    } else if (c == '`') {
      keep();
      levels_.push_back(kText);
    } else if (c == '}' && !levels_.empty() && levels_.back() == 0) {
      keep();
      levels_.pop_back();  // back to the text of the literal
    } else {
      if (!levels_.empty() && c == '{') ++levels_.back();
      if (!levels_.empty() && c == '}') --levels_.back();
      keep();
    }
  }

  void quoted(char quote) {
    keep();
    while (at_ < code_.size() && code_[at_] != quote && code_[at_] != '\n') blank(code_[at_] == '\\' ? 2 : 1);
    if (at_ < code_.size()) keep();
  }

  void template_text() {
    while (at_ < code_.size() && code_[at_] != '`' && !starts("${")) blank(code_[at_] == '\\' ? 2 : 1);
    if (at_ == code_.size()) return;
    if (code_[at_] == '`') {
      levels_.pop_back();
      return keep();
    }
    blank(2);
    levels_.push_back(0);
  }

  void expression() {
    keep();
    for (bool in_class = false; at_ < code_.size() && code_[at_] != '\n'; blank(code_[at_] == '\\' ? 2 : 1)) {
      if (code_[at_] == '[') in_class = true;
      if (code_[at_] == ']') in_class = false;
      if (code_[at_] == '/' && !in_class) break;
    }
    if (at_ < code_.size()) keep();
  }

  // A slash begins a regular expression where a value may stand; after one it divides.
  [[nodiscard]] bool begins_expression() const {
    const auto last = out_.find_last_not_of(" \t\r\n");
    if (last == std::string::npos) return true;
    const char c = out_[last];
    if (!is_word(c)) return c != ')' && c != ']' && c != '}' && c != '"' && c != '\'' && c != '`';
    auto begin = last;
    while (begin > 0 && is_word(out_[begin - 1])) --begin;
    constexpr auto kBefore = std::to_array<std::string_view>(
        {"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do", "await", "yield"});
    return std::ranges::count(kBefore, std::string_view(out_).substr(begin, last + 1 - begin)) != 0;
  }

  std::string_view code_;
  std::string out_;
  std::size_t at_ = 0;
  std::vector<int> levels_;
};

}  // namespace

bool is_es_module(std::string_view code) {
  if (code.find("import") == code.npos && code.find("export") == code.npos) return false;
  const auto plain = Blanker(code).run();
  const std::string_view text = plain;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    auto line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("export ") || line.starts_with("export{") || line.starts_with("export*")) return true;
    if (!line.starts_with("import ") && !line.starts_with("import{")) continue;
    line.remove_prefix(std::string_view("import").size());
    // `import {` may continue on the next line.
    if (line.find(" from ") != line.npos || line.find_first_of("'\"{") != line.npos) return true;
  }
  return false;
}

}  // namespace cove::doors::mcp
