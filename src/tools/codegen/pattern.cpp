#include "tools/codegen/pattern.hpp"

#include <algorithm>

namespace cove::tools::codegen {
namespace {

constexpr std::size_t kLongest = 300;
constexpr int kMostRepeated = 100;
constexpr std::string_view kEscapable = "dDwWsSbBtnr\\/.^$*+?()[]{}|-";
constexpr std::string_view kEscapableInClass = "dDwWsStnr\\/.^$*+?()[]{}|-";

class Scan {
 public:
  explicit Scan(std::string_view text) : text_(text) {}

  bool good() {
    while (at_ < text_.size()) {
      if (!step()) return false;
    }
    return groups_ == 0;
  }

 private:
  enum class Last { nothing, atom, group, repeated };

  bool step() {
    const char c = text_[at_++];
    switch (c) {
      case '\\':
        if (at_ == text_.size() || kEscapable.find(text_[at_++]) == std::string_view::npos) return false;
        last_ = Last::atom;
        return true;
      case '[':
        last_ = Last::atom;
        return char_class();
      case '(':
        ++groups_;
        last_ = Last::nothing;
        if (at_ < text_.size() && text_[at_] == '?') {
          if (text_.substr(at_, 2) != "?:") return false;
          at_ += 2;
        }
        return true;
      case ')':
        last_ = Last::group;
        return --groups_ >= 0;
      case '*':
      case '+':
      case '?':
        return repetition();
      case '{':
        return counted();
      case '|':
      case '^':
      case '$':
        last_ = Last::nothing;
        return true;
      case ']':
      case '}':
        return false;
      default:
        last_ = Last::atom;
        return static_cast<unsigned char>(c) >= 0x20;
    }
  }

  bool repetition() {
    if (last_ == Last::nothing || last_ == Last::repeated) return false;
    last_ = Last::repeated;
    return true;
  }

  bool counted() {
    if (last_ != Last::atom) return false;
    const auto end = text_.find('}', at_);
    if (end == std::string_view::npos) return false;
    const auto body = text_.substr(at_, end - at_);
    at_ = end + 1;
    last_ = Last::repeated;
    const auto comma = body.find(',');
    const int least = number(body.substr(0, comma));
    if (comma == std::string_view::npos || comma + 1 == body.size()) return least >= 0;
    return least >= 0 && number(body.substr(comma + 1)) >= least;
  }

  static int number(std::string_view digits) {
    if (digits.empty() || digits.size() > 3) return -1;
    int value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9') return -1;
      value = value * 10 + (c - '0');
    }
    return value <= kMostRepeated ? value : -1;
  }

  bool char_class() {
    if (at_ < text_.size() && text_[at_] == '^') ++at_;
    bool empty = true;
    int before = -1;  // the character that a range may begin with
    while (at_ < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at_++]);
      if (c == ']') return !empty;
      if (c == '[' || c == '&' || c == '~' || c < 0x20) return false;  // sets within sets mean different things
      if (c == '-' && !empty && before >= 0 && at_ < text_.size() && text_[at_] != ']') {
        const auto to = static_cast<unsigned char>(text_[at_++]);
        if (to == '\\' || to == '[' || to >= 0x80 || static_cast<int>(to) < before) return false;
        before = -1;
        continue;
      }
      if (c == '-' && !empty && at_ < text_.size() && text_[at_] != ']') return false;
      empty = false;
      before = c < 0x80 ? c : -1;
      if (c != '\\') continue;
      if (at_ == text_.size() || kEscapableInClass.find(text_[at_++]) == std::string_view::npos) return false;
      before = -1;
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int groups_ = 0;
  Last last_ = Last::nothing;
};

}  // namespace

bool common_pattern(std::string_view pattern) {
  return pattern.size() <= kLongest && Scan(pattern).good();
}

}  // namespace cove::tools::codegen
