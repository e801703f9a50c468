#include "doors/sandboxes/quantity.hpp"

#include <array>
#include <charconv>
#include <cmath>

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
  return fail(Errc::invalid, "is not a quantity such as 500m, 2, 512Mi or 1Gi");
}

}  // namespace cove::doors::sandboxes
