#include "base/names.hpp"

#include <algorithm>

namespace cove {
namespace {

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// As many as Debian has, and some.
constexpr std::size_t kLongestPackage = 100;
constexpr std::size_t kLongestModule = 100;
constexpr std::size_t kLongestTemplate = 64;

}  // namespace

bool is_package_name(std::string_view name) {
  return name.size() >= 2 && name.size() <= kLongestPackage && (is_lower(name.front()) || is_digit(name.front())) &&
         name.back() != '-' && std::ranges::all_of(name, [](char c) {
           return is_lower(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
         });
}

bool is_module_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestModule) return false;
  bool begins = true;
  for (const char c : name) {
    const bool letter = is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_';
    if (begins ? !letter : !(letter || is_digit(c) || c == '.')) return false;
    begins = c == '.';
  }
  return !begins;
}

bool is_template_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestTemplate && (is_lower(name.front()) || is_digit(name.front())) &&
         std::ranges::all_of(name,
                             [](char c) { return is_lower(c) || is_digit(c) || c == '-' || c == '_' || c == '.'; });
}

}  // namespace cove
