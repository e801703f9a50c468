#include "schema/pattern.hpp"

#include <algorithm>
#include <string>

#include "schema/code_points.hpp"
#include "schema/pattern_compiler.hpp"

namespace cove::schema {
namespace {

using Kind = Pattern::Step::Kind;

constexpr std::size_t kMaxText = 20'000;

// The states that are alive before one character.
class Alive {
 public:
  explicit Alive(std::size_t size) : seen_(size, 0) {}
  void clear() {
    ++round_;
    states.clear();
  }
  bool insert(std::uint32_t state) {
    if (seen_[state] == round_) return false;
    seen_[state] = round_;
    return true;
  }
  std::vector<std::uint32_t> states;  // of sets and matches

 private:
  std::vector<std::uint32_t> seen_;
  std::uint32_t round_ = 1;
};

}  // namespace

bool Pattern::Set::contains(char32_t c) const {
  const bool found =
      std::ranges::any_of(ranges, [c](const auto& range) { return c >= range.first && c <= range.second; });
  return found != negated;
}

std::optional<Pattern> Pattern::compile(std::string_view text) {
  if (text.size() > kMaxText) return std::nullopt;
  Pattern out;
  if (!compile_pattern(code_points(text), out.steps_, out.sets_)) return std::nullopt;
  return out;
}

bool Pattern::found_in(std::string_view utf8, std::size_t& steps) const {
  const auto text = code_points(utf8);
  Alive now(steps_.size());
  Alive then(steps_.size());
  std::vector<std::uint32_t> open;
  // Follows what needs no character. True: it matches here.
  const auto enter = [&](Alive& alive, std::uint32_t state, std::size_t at) {
    const bool before = at > 0 && word_character(text[at - 1]);
    const bool after = at < text.size() && word_character(text[at]);
    open.assign(1, state);
    while (!open.empty()) {
      const auto next = open.back();
      open.pop_back();
      if (!alive.insert(next)) continue;
      if (steps == 0) return false;
      --steps;
      const auto& step = steps_[next];
      switch (step.kind) {
        case Kind::match:
          return true;
        case Kind::set:
          alive.states.push_back(next);
          break;
        case Kind::jump:
          open.push_back(step.to);
          break;
        case Kind::split:
          open.push_back(step.other);
          open.push_back(step.to);
          break;
        case Kind::begin:
          if (at == 0) open.push_back(next + 1);
          break;
        case Kind::end:
          if (at == text.size()) open.push_back(next + 1);
          break;
        case Kind::boundary:
          if (before != after) open.push_back(next + 1);
          break;
        case Kind::no_boundary:
          if (before == after) open.push_back(next + 1);
          break;
      }
    }
    return false;
  };
  now.clear();
  for (std::size_t at = 0; steps > 0; ++at) {
    if (enter(now, 0, at)) return true;  // it may begin anywhere
    if (at == text.size()) return false;
    then.clear();
    for (const auto state : now.states) {
      if (!sets_[steps_[state].to].contains(text[at])) continue;
      if (enter(then, state + 1, at + 1)) return true;
    }
    std::swap(now, then);
  }
  return false;
}

}  // namespace cove::schema
