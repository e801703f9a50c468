#include "base/units.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace cove {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// Takes "12.5" off the front of `text`. No sign, no exponent: those are typing errors here.
std::optional<double> take_number(std::string_view& text) {
  const auto end =
      std::find_if_not(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  const std::string_view digits(text.data(), static_cast<std::size_t>(end - text.begin()));
  double value = 0;
  const auto [stop, ec] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, std::chars_format::fixed);
  if (ec != std::errc{} || stop != digits.data() + digits.size()) return std::nullopt;
  text.remove_prefix(digits.size());
  return value;
}

std::string_view take_letters(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(),
                                    [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
  const std::string_view letters(text.data(), static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(letters.size());
  return letters;
}

template <std::size_t N>
std::optional<double> factor_of(const std::array<Unit, N>& units, std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = std::ranges::find(units, std::string_view(lower), &Unit::name);
  if (found == units.end()) return std::nullopt;
  return found->factor;
}

constexpr double kKi = 1024;
constexpr auto kSizes = std::to_array<Unit>({
    {"", 1},
    {"b", 1},
    {"k", kKi},
    {"kb", kKi},
    {"ki", kKi},
    {"kib", kKi},
    {"m", kKi* kKi},
    {"mb", kKi* kKi},
    {"mi", kKi* kKi},
    {"mib", kKi* kKi},
    {"g", kKi* kKi* kKi},
    {"gb", kKi* kKi* kKi},
    {"gi", kKi* kKi* kKi},
    {"gib", kKi* kKi* kKi},
    {"t", kKi* kKi* kKi* kKi},
    {"tb", kKi* kKi* kKi* kKi},
    {"ti", kKi* kKi* kKi* kKi},
    {"tib", kKi* kKi* kKi* kKi},
});
constexpr auto kDurations =
    std::to_array<Unit>({{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}});

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  std::string_view rest = text;
  const auto number = take_number(rest);
  const auto factor = factor_of(kSizes, rest);
  if (!number || !factor)
    return fail(Errc::invalid, fmt::format("'{}' is not a size; write 512M, 1Gi or a number of bytes", text));
  const double bytes = std::floor(*number * *factor);
  if (bytes >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) {
    return fail(Errc::invalid, fmt::format("'{}' is larger than any size", text));
  }
  return static_cast<std::uint64_t>(bytes);
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const auto wrong = [&] {
    return fail(Errc::invalid, fmt::format("'{}' is not a duration; write 500ms, 30s, 2m or 1h30m", text));
  };
  if (text.empty()) return wrong();
  double total = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const auto number = take_number(rest);
    if (!number) return wrong();
    const auto unit = take_letters(rest);
    const auto factor = factor_of(kDurations, unit);
    if (!factor || (unit.empty() && (!rest.empty() || total > 0))) return wrong();
    total += *number * *factor;
  }
  constexpr double kYear = 365.0 * 86'400'000;
  if (total > kYear) return fail(Errc::invalid, fmt::format("'{}' is longer than a year", text));
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(total)));
}

std::string format_size(std::uint64_t bytes) {
  constexpr auto kSuffixes = std::to_array<std::string_view>({"", "K", "M", "G", "T", "P"});
  std::size_t power = 0;
  auto value = static_cast<double>(bytes);
  while (value >= kKi && power + 1 < kSuffixes.size()) {
    value /= kKi;
    ++power;
  }
  const bool whole = value == std::floor(value) || value >= 100;
  return whole ? fmt::format("{:.0f}{}", value, kSuffixes[power]) : fmt::format("{:.1f}{}", value, kSuffixes[power]);
}

std::string format_duration(std::chrono::milliseconds duration) {
  const auto ms = duration.count();
  if (ms < 1000) return fmt::format("{}ms", ms);
  if (ms % 3'600'000 == 0) return fmt::format("{}h", ms / 3'600'000);
  if (ms % 60'000 == 0) return fmt::format("{}m", ms / 60'000);
  return ms % 1000 == 0 ? fmt::format("{}s", ms / 1000) : fmt::format("{:.1f}s", static_cast<double>(ms) / 1000);
}

}  // namespace cove
