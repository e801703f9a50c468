#include "mcp/mirrored.hpp"

#include <charconv>
#include <cmath>

namespace cove::mcp {
namespace {

namespace json = boost::json;

constexpr std::size_t kDeepest = 16;

void collect(const json::object& schema, std::vector<std::string>& path, std::vector<Mirrored>& out) {
  const auto* properties = schema.if_contains("properties");
  if (properties == nullptr || !properties->is_object() || path.size() >= kDeepest) return;
  for (const auto& [name, property] : properties->as_object()) {
    if (!property.is_object()) continue;
    path.emplace_back(name);
    if (const auto* header = property.as_object().if_contains("x-mcp-header"); header != nullptr && header->is_string())
      out.push_back({.header = "Mcp-Param-" + std::string(header->as_string()), .path = path});
    collect(property.as_object(), path, out);
    path.pop_back();
  }
}

}  // namespace

std::vector<Mirrored> mirrored_arguments(const json::object& schema) {
  std::vector<Mirrored> out;
  std::vector<std::string> path;
  collect(schema, path, out);
  return out;
}

const json::value* find_argument(const json::object& arguments, const std::vector<std::string>& path) {
  const json::object* within = &arguments;
  const json::value* found = nullptr;
  for (const auto& name : path) {
    found = within != nullptr ? within->if_contains(name) : nullptr;
    if (found == nullptr || found->is_null()) return nullptr;
    within = found->if_object();
  }
  return found;
}

bool says_the_same(const json::value& argument, std::string_view text) {
  if (argument.is_string()) return std::string_view(argument.as_string()) == text;
  if (argument.is_bool()) return text == (argument.as_bool() ? "true" : "false");
  if (!argument.is_number()) return false;
  double number = 0;
  const auto* end = text.data() + text.size();
  const auto [stopped, wrong] = std::from_chars(text.data(), end, number);
  return wrong == std::errc() && stopped == end && number == argument.to_number<double>();
}

}  // namespace cove::mcp
