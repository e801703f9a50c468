#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace cove::schema {

// A regular expression of ECMA-262 as JSON Schema uses them, over code points. Its time is bounded by the length of the
// text times its own; there is no backtracking.
class Pattern {
 public:
  // nullopt: it is malformed, or has what this cannot do: back references, looking around, Unicode properties, a size
  // beyond all reason.
  static std::optional<Pattern> compile(std::string_view text);

  // Whether it is found anywhere in the text. Takes what it costs from `steps`; out of steps, false.
  [[nodiscard]] bool found_in(std::string_view utf8, std::size_t& steps) const;

  struct Step {
    enum class Kind : std::uint8_t { set, split, jump, begin, end, boundary, no_boundary, match };
    Kind kind = Kind::match;
    std::uint32_t to = 0;     // of jump and split; of set its index
    std::uint32_t other = 0;  // of split
  };
  struct Set {
    std::vector<std::pair<char32_t, char32_t>> ranges;
    bool negated = false;
    [[nodiscard]] bool contains(char32_t c) const;
  };

 private:
  std::vector<Step> steps_;
  std::vector<Set> sets_;
};

}  // namespace cove::schema
