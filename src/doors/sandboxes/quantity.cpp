#include "doors/sandboxes/quantity.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string>

namespace cove::doors::sandboxes {

Result<std::uint64_t> parse_quantity_millis(std::string_view text) {
  struct Suffix {
    std::string_view text;
    double factor;
  };
  constexpr std::array<Suffix, 12> kSuffixes{{{"", 1},
                                              {"m", 1e-3},
                                              {"k", 1e3},
                                              {"M", 1e6},
                                              {"G", 1e9},
                                              {"T", 1e12},
                                              {"P", 1e15},
                                              {"Ki", 1024.0},
                                              {"Mi", 1048576.0},
                                              {"Gi", 1073741824.0},
                                              {"Ti", 1099511627776.0},
                                              {"Pi", 1125899906842624.0}}};
  const auto end = text.find_first_not_of("0123456789.");
  const auto digits = text.substr(0, end);
  double value = 0;
  const auto [stop, failed] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  const bool number =
      !digits.empty() && failed == std::errc() && stop == digits.data() + digits.size() && digits != ".";
  const auto suffix = end == std::string_view::npos ? std::string_view() : text.substr(end);
  for (const auto& known : kSuffixes) {
    if (!number || known.text != suffix) continue;
    const double millis = std::ceil(value * known.factor * 1000);
    if (millis > 9e18) break;
    return static_cast<std::uint64_t>(millis);
  }
  // "2GB", "512MB", "2gb": what is meant is clear enough to say.
  auto shorter = std::string(suffix);
  if (shorter.ends_with('B') || shorter.ends_with('b')) shorter.pop_back();
  if (!shorter.empty()) shorter[0] = static_cast<char>(shorter[0] == 'K' ? 'k' : std::toupper(shorter[0]));
  const bool meant =
      number && shorter != suffix && std::ranges::find(kSuffixes, shorter, &Suffix::text) != kSuffixes.end();
  return fail(Errc::invalid, meant ? fmt::format("is not a quantity: {}{} is meant, or {}{}i", digits, shorter, digits,
                                                 shorter.substr(0, 1))
                                   : "is not a quantity such as 500m, 2, 512Mi or 1Gi");
}

}  // namespace cove::doors::sandboxes
