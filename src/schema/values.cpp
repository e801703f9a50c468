#include "schema/values.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

namespace cove::schema {
namespace {

namespace json = boost::json;

constexpr double kExact = 9007199254740992.0;  // up to here every integer is a double of its own

// An integer in a wide type, where the number is one of those.
bool wide(const json::value& value, __int128& out) {
  if (value.is_int64()) {
    out = value.as_int64();
    return true;
  }
  if (value.is_uint64()) {
    out = value.as_uint64();
    return true;
  }
  const auto number = value.as_double();
  if (std::trunc(number) != number || std::abs(number) > 1e18) return false;
  out = static_cast<__int128>(number);
  return true;
}

}  // namespace

std::partial_ordering compare_numbers(const json::value& a, const json::value& b) {
  __int128 left = 0;
  __int128 right = 0;
  if (wide(a, left) && wide(b, right)) {
    if (left == right) return std::partial_ordering::equivalent;
    return left < right ? std::partial_ordering::less : std::partial_ordering::greater;
  }
  return a.to_number<double>() <=> b.to_number<double>();
}

bool is_integer(const json::value& value) {
  if (value.is_int64() || value.is_uint64()) return true;
  return value.is_double() && std::isfinite(value.as_double()) && std::trunc(value.as_double()) == value.as_double();
}

bool is_multiple(const json::value& value, const json::value& of) {
  __int128 whole = 0;
  __int128 part = 0;
  if (wide(value, whole) && wide(of, part)) return part != 0 && whole % part == 0;
  const auto quotient = value.to_number<double>() / of.to_number<double>();
  if (!std::isfinite(quotient)) return false;
  if (std::abs(quotient) > kExact) return true;
  // 0.3 is meant to be a multiple of 0.1.
  return std::abs(quotient - std::round(quotient)) <= 1e-9 * std::max(1.0, std::abs(quotient));
}

std::string canonical(const json::value& value, std::size_t& steps) {
  if (steps == 0) return {};
  --steps;
  if (value.is_number()) {
    __int128 whole = 0;
    if (wide(value, whole)) {
      const bool negative = whole < 0;
      auto rest = negative ? -whole : whole;
      std::string digits;
      do digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(rest % 10)));
      while ((rest /= 10) != 0);
      return negative ? "-" + digits : digits;
    }
    return json::serialize(value);
  }
  if (value.is_array()) {
    std::string out = "[";
    for (const auto& item : value.as_array()) out += canonical(item, steps) + ",";
    return out + "]";
  }
  if (value.is_object()) {
    std::vector<std::pair<std::string, const json::value*>> members;
    for (const auto& [name, member] : value.as_object()) members.emplace_back(name, &member);
    std::ranges::sort(members, {}, [](const auto& one) -> const std::string& { return one.first; });
    std::string out = "{";
    for (const auto& [name, member] : members)
      out += json::serialize(json::string_view(name)) + ":" + canonical(*member, steps) + ",";
    return out + "}";
  }
  return json::serialize(value);
}

bool equal(const json::value& a, const json::value& b, std::size_t& steps) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == std::partial_ordering::equivalent;
  if (a.is_string() && b.is_string()) return a.as_string() == b.as_string();
  if (a.kind() != b.kind()) return false;
  if (!a.is_structured()) return a == b;
  return canonical(a, steps) == canonical(b, steps);
}

}  // namespace cove::schema
