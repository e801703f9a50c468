#include "schema/pattern_compiler.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace cove::schema {
namespace {

using Step = Pattern::Step;
using Set = Pattern::Set;
using Kind = Step::Kind;

constexpr std::size_t kMaxSteps = 20'000;
constexpr std::size_t kMaxRepeats = 5000;
constexpr int kDeepest = 64;
constexpr char32_t kLast = 0x10ffff;

void add_digits(Set& set) {
  set.ranges.emplace_back(U'0', U'9');
}
void add_words(Set& set) {
  set.ranges.insert(set.ranges.end(), {{U'a', U'z'}, {U'A', U'Z'}, {U'0', U'9'}, {U'_', U'_'}});
}
void add_spaces(Set& set) {
  set.ranges.insert(set.ranges.end(), {{U'\t', U'\r'},
                                       {U' ', U' '},
                                       {0xa0, 0xa0},
                                       {0x1680, 0x1680},
                                       {0x2000, 0x200a},
                                       {0x2028, 0x2029},
                                       {0x202f, 0x202f},
                                       {0x205f, 0x205f},
                                       {0x3000, 0x3000},
                                       {0xfeff, 0xfeff}});
}

// Everything that the ranges leave.
void add_rest(Set& set, Set of) {
  std::ranges::sort(of.ranges);
  char32_t next = 0;
  for (const auto& [from, to] : of.ranges) {
    if (from > next) set.ranges.emplace_back(next, from - 1);
    next = std::max<char32_t>(next, to + 1);
  }
  if (next <= kLast) set.ranges.emplace_back(next, kLast);
}

// Adds the class of `\d` and its like. False: it is none.
bool add_class(Set& set, char32_t letter) {
  Set one;
  switch (letter) {
    case U'd':
    case U'D':
      add_digits(one);
      break;
    case U'w':
    case U'W':
      add_words(one);
      break;
    case U's':
    case U'S':
      add_spaces(one);
      break;
    default:
      return false;
  }
  if (letter < U'a')
    add_rest(set, std::move(one));
  else
    set.ranges.insert(set.ranges.end(), one.ranges.begin(), one.ranges.end());
  return true;
}

// Turns the text into steps, by recursive descent. Every part is a run of steps whose jumps count from its own
// beginning.
class Compiler {
 public:
  explicit Compiler(std::u32string text) : text_(std::move(text)) {}

  bool compile(std::vector<Step>& steps, std::vector<Set>& sets) {
    auto parsed = choice(0);
    if (!good_ || at_ != text_.size()) return false;
    parsed.push_back(Step{.kind = Kind::match});
    steps = std::move(parsed);
    sets = std::move(sets_);
    return true;
  }

 private:
  using Part = std::vector<Step>;

  bool more() const { return at_ < text_.size(); }
  char32_t look() const { return more() ? text_[at_] : 0; }
  bool take(char32_t c) {
    if (!more() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Part bad() {
    good_ = false;
    return {};
  }

  static void append(Part& part, const Part& other) {
    const auto base = static_cast<std::uint32_t>(part.size());
    for (auto step : other) {
      if (step.kind == Kind::split || step.kind == Kind::jump) step.to += base;
      if (step.kind == Kind::split) step.other += base;
      part.push_back(step);
    }
  }

  Part choice(int depth) {
    if (depth > kDeepest) return bad();
    auto part = sequence(depth);
    while (good_ && take(U'|')) {
      const auto other = sequence(depth);
      Part both{Step{.kind = Kind::split, .to = 1, .other = static_cast<std::uint32_t>(part.size() + 2)}};
      append(both, part);
      both.push_back(Step{.kind = Kind::jump, .to = static_cast<std::uint32_t>(part.size() + 2 + other.size())});
      append(both, other);
      part = std::move(both);
      if (part.size() > kMaxSteps) return bad();
    }
    return part;
  }

  Part sequence(int depth) {
    Part part;
    while (good_ && more() && look() != U'|' && look() != U')') {
      auto atom = one(depth);
      if (!good_) return {};
      repeat(atom);
      if (!good_ || part.size() + atom.size() > kMaxSteps) return bad();
      append(part, atom);
    }
    return part;
  }

  // Applies a quantifier, if one follows.
  void repeat(Part& atom) {
    std::size_t least = 1;
    std::size_t most = 1;
    const bool endless = quantifier(least, most);
    if (!good_ || (least == 1 && most == 1 && !endless)) return;
    const auto copies = endless ? least + 1 : most;
    if (copies * (atom.size() + 2) > kMaxSteps) {
      good_ = false;
      return;
    }
    Part out;
    for (std::size_t i = 0; i < least; ++i) append(out, atom);
    const auto size = static_cast<std::uint32_t>(atom.size());
    if (endless) {
      Part loop{Step{.kind = Kind::split, .to = 1, .other = size + 2}};
      append(loop, atom);
      loop.push_back(Step{.kind = Kind::jump, .to = 0});
      append(out, loop);
    } else {
      for (std::size_t i = least; i < most; ++i) {
        Part once{Step{.kind = Kind::split, .to = 1, .other = size + 1}};
        append(once, atom);
        append(out, once);
      }
    }
    atom = std::move(out);
  }

  // True: without an end.
  bool quantifier(std::size_t& least, std::size_t& most) {
    bool endless = false;
    if (take(U'*')) {
      least = 0;
      endless = true;
    } else if (take(U'+')) {
      endless = true;
    } else if (take(U'?')) {
      least = 0;
    } else if (look() == U'{') {
      const auto before = at_++;
      const auto from = number();
      std::optional<std::size_t> to = from;
      if (from && take(U',')) {
        to = number();
        endless = !to;
      }
      if (!from || !take(U'}')) {  // a brace that is meant as one
        at_ = before;
        return false;
      }
      least = *from;
      most = to.value_or(*from);
      if (most < least || most > kMaxRepeats) good_ = false;
    } else {
      return false;
    }
    take(U'?');  // whether it takes much or little, it matches the same texts
    return endless;
  }

  std::optional<std::size_t> number() {
    std::size_t value = 0;
    const auto begin = at_;
    for (; look() >= U'0' && look() <= U'9'; ++at_) value = std::min(value * 10 + (look() - U'0'), kMaxRepeats + 1);
    if (at_ == begin) return std::nullopt;
    return value;
  }

  Part one(int depth) {
    const auto c = text_[at_++];
    switch (c) {
      case U'^':
        return {Step{.kind = Kind::begin}};
      case U'$':
        return {Step{.kind = Kind::end}};
      case U'(':
        return group(depth);
      case U'[':
        return bracket();
      case U'.': {
        Set set{.ranges = {{U'\n', U'\n'}, {U'\r', U'\r'}, {0x2028, 0x2029}}, .negated = true};
        return in(std::move(set));
      }
      case U'*':
      case U'+':
      case U'?':
        return bad();
      case U'\\':
        return escape();
      default:
        return in(Set{.ranges = {{c, c}}});
    }
  }

  Part group(int depth) {
    if (take(U'?')) {
      if (take(U'<')) {
        if (look() == U'=' || look() == U'!') return bad();
        while (more() && look() != U'>') ++at_;
        if (!take(U'>')) return bad();
      } else if (!take(U':')) {
        return bad();
      }
    }
    auto part = choice(depth + 1);
    return take(U')') ? part : bad();
  }

  Part in(Set set) {
    sets_.push_back(std::move(set));
    return {Step{.kind = Kind::set, .to = static_cast<std::uint32_t>(sets_.size() - 1)}};
  }

  Part escape() {
    if (!more()) return bad();
    if (take(U'b')) return {Step{.kind = Kind::boundary}};
    if (take(U'B')) return {Step{.kind = Kind::no_boundary}};
    Set set;
    if (add_class(set, look())) {
      ++at_;
      return in(std::move(set));
    }
    const auto c = character();
    return c ? in(Set{.ranges = {{*c, *c}}}) : bad();
  }

  // The character that follows a backslash.
  std::optional<char32_t> character() {
    if (!more()) return std::nullopt;
    const auto c = text_[at_++];
    switch (c) {
      case U'n':
        return U'\n';
      case U'r':
        return U'\r';
      case U't':
        return U'\t';
      case U'f':
        return U'\f';
      case U'v':
        return U'\v';
      case U'0':
        return U'\0';
      case U'x':
        return hex(2);
      case U'u':
        return unicode();
      case U'c':
        if (!more()) return std::nullopt;
        return text_[at_++] & 0x1fU;
      default:
        break;
    }
    // Back references, properties, and what nobody has defined.
    if (word_character(c)) return std::nullopt;
    return c;
  }

  std::optional<char32_t> unicode() {
    if (take(U'{')) {
      char32_t value = 0;
      while (more() && look() != U'}') {
        const auto digit = hex(1);
        if (!digit || value > kLast) return std::nullopt;
        value = value * 16 + *digit;
      }
      if (!take(U'}') || value > kLast) return std::nullopt;
      return value;
    }
    const auto high = hex(4);
    if (!high || *high < 0xd800 || *high > 0xdbff) return high;
    const auto before = at_;
    if (take(U'\\') && take(U'u')) {
      const auto low = hex(4);
      if (low && *low >= 0xdc00 && *low <= 0xdfff) return 0x10000 + ((*high - 0xd800) << 10) + (*low - 0xdc00);
    }
    at_ = before;
    return high;
  }

  std::optional<char32_t> hex(int digits) {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      if (!more()) return std::nullopt;
      const auto c = text_[at_++];
      if (c >= U'0' && c <= U'9')
        value = value * 16 + (c - U'0');
      else if ((c | 0x20U) >= U'a' && (c | 0x20U) <= U'f')
        value = value * 16 + ((c | 0x20U) - U'a' + 10);
      else
        return std::nullopt;
    }
    return value;
  }

  Part bracket() {
    Set set;
    set.negated = take(U'^');
    while (more() && look() != U']') {
      bool is_class = false;
      const auto from = member(set, is_class);
      if (!good_) return {};
      if (is_class) continue;
      auto to = from;
      if (look() == U'-' && at_ + 1 < text_.size() && text_[at_ + 1] != U']') {
        ++at_;
        const auto before = at_;
        to = member(set, is_class);
        if (!good_) return {};
        if (is_class) {  // a hyphen before a class is one
          at_ = before;
          set.ranges.emplace_back(U'-', U'-');
          to = from;
        }
      }
      if (to < from) return bad();
      set.ranges.emplace_back(from, to);
    }
    return take(U']') ? in(std::move(set)) : bad();
  }

  char32_t member(Set& set, bool& is_class) {
    const auto c = text_[at_++];
    if (c != U'\\') return c;
    if (look() == U'b') {
      ++at_;
      return U'\b';
    }
    if (add_class(set, look())) {
      ++at_;
      is_class = true;
      return 0;
    }
    const auto known = character();
    if (!known) good_ = false;
    return known.value_or(0);
  }

  std::u32string text_;
  std::size_t at_ = 0;
  bool good_ = true;
  std::vector<Set> sets_;
};

}  // namespace

bool word_character(char32_t c) {
  return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9') || c == U'_';
}

bool compile_pattern(std::u32string text, std::vector<Step>& steps, std::vector<Set>& sets) {
  if (text.size() > kMaxSteps) return false;
  Compiler compiler(std::move(text));
  return compiler.compile(steps, sets);
}

}  // namespace cove::schema
