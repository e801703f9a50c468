// The keywords of arrays and objects.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/text.hpp"
#include "schema/check.hpp"
#include "schema/values.hpp"

namespace cove::schema {
namespace {

namespace json = boost::json;

std::optional<std::size_t> bound_of(const json::object& schema, std::string_view name) {
  const auto* value = schema.if_contains(name);
  if (value == nullptr || !value->is_number() || value->to_number<double>() < 0) return std::nullopt;
  return static_cast<std::size_t>(std::min(value->to_number<double>(), 1e15));
}

std::string quoted(std::string_view name) {
  return fmt::format("\"{}\"", replace_invalid_utf8(name.substr(0, 100)));
}

}  // namespace

bool Check::fits_array(const Object& schema, const Value& value, Seen& seen) {
  if (!value.is_array()) return true;
  const auto& items = value.as_array();
  if (const auto least = bound_of(schema, "minItems"); least && items.size() < *least)
    return refuse(fmt::format("must have at least {} items", *least));
  if (const auto most = bound_of(schema, "maxItems"); most && items.size() > *most)
    return refuse(fmt::format("must have at most {} items", *most));
  if (const auto* unique = schema.if_contains("uniqueItems");
      unique != nullptr && unique->is_bool() && unique->as_bool()) {
    std::unordered_set<std::string> known;
    for (const auto& item : items) {
      auto text = canonical(item, limits_.steps);
      if (!spend()) return false;
      if (!known.insert(std::move(text)).second) return refuse("must not have the same item twice");
    }
  }
  return fits_items(schema, items, seen) && fits_contains(schema, items, seen);
}

bool Check::fits_items(const Object& schema, const json::array& items, Seen& seen) {
  const auto* rest = schema.if_contains("items");
  const auto* first = schema.if_contains("prefixItems");
  // draft-07: an array of schemas for the first, and one for the others.
  if (rest != nullptr && rest->is_array()) {
    first = rest;
    rest = schema.if_contains("additionalItems");
  }
  std::size_t at = 0;
  if (first != nullptr && first->is_array()) {
    for (; at < std::min(first->as_array().size(), items.size()); ++at) {
      if (!item_fits(first->as_array()[at], items, at)) return false;
    }
    seen.first_items = std::max(seen.first_items, at);
  }
  if (rest == nullptr) return true;
  for (; at < items.size(); ++at) {
    if (!item_fits(*rest, items, at)) return false;
  }
  seen.all_items = true;
  return true;
}

bool Check::fits_contains(const Object& schema, const json::array& items, Seen& seen) {
  const auto* wanted = schema.if_contains("contains");
  if (wanted == nullptr) return true;
  const auto least = bound_of(schema, "minContains").value_or(1);
  const auto most = bound_of(schema, "maxContains");
  std::size_t found = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    Seen inner;
    if (!would_fit(*wanted, items[i], inner)) continue;
    ++found;
    seen.items.insert(i);
  }
  if (costly_) return false;
  if (found < least) return refuse(fmt::format("must have at least {} items as `contains` describes them", least));
  if (most && found > *most)
    return refuse(fmt::format("must have at most {} items as `contains` describes them", *most));
  return true;
}

bool Check::fits_object(const Object& schema, const Value& value, Seen& seen) {
  if (!value.is_object()) return true;
  const auto& object = value.as_object();
  if (const auto* required = schema.if_contains("required"); required != nullptr && required->is_array()) {
    for (const auto& name : required->as_array()) {
      if (!spend()) return false;
      if (name.is_string() && !object.contains(name.as_string()))
        return refuse("must have " + quoted(name.as_string()));
    }
  }
  if (const auto least = bound_of(schema, "minProperties"); least && object.size() < *least)
    return refuse(fmt::format("must have at least {} members", *least));
  if (const auto most = bound_of(schema, "maxProperties"); most && object.size() > *most)
    return refuse(fmt::format("must have at most {} members", *most));
  if (const auto* names = schema.if_contains("propertyNames")) {
    for (const auto& [name, member] : object) {
      Seen inner;
      if (!would_fit(*names, Value(name), inner)) return refuse(fmt::format("must not have a member {}", quoted(name)));
    }
  }
  return fits_members(schema, object, seen) && fits_dependents(schema, object, value, seen);
}

bool Check::fits_members(const Object& schema, const Object& object, Seen& seen) {
  const auto* properties = schema.if_contains("properties");
  const auto* patterns = schema.if_contains("patternProperties");
  const auto* rest = schema.if_contains("additionalProperties");
  for (const auto& [key, member] : object) {
    if (!spend()) return false;
    const std::string_view name(key);
    bool spoken_of = false;
    if (properties != nullptr && properties->is_object()) {
      if (const auto* property = properties->as_object().if_contains(name)) {
        spoken_of = true;
        if (!member_fits(*property, member, name)) return false;
      }
    }
    if (patterns != nullptr && patterns->is_object()) {
      for (const auto& [pattern, property] : patterns->as_object()) {
        if (!spend()) return false;
        if (!matches(pattern, name)) continue;
        spoken_of = true;
        if (!member_fits(property, member, name)) return false;
      }
    }
    if (!spoken_of && rest != nullptr) {
      spoken_of = true;
      if (rest->is_bool() && !rest->as_bool()) return refuse(fmt::format("must not have a member {}", quoted(name)));
      if (!member_fits(*rest, member, name)) return false;
    }
    if (spoken_of) seen.members.emplace(name);
  }
  return true;
}

bool Check::fits_dependents(const Object& schema, const Object& object, const Value& value, Seen& seen) {
  for (const auto* keyword : {"dependentRequired", "dependentSchemas", "dependencies"}) {
    const auto* dependents = schema.if_contains(keyword);
    if (dependents == nullptr || !dependents->is_object()) continue;
    for (const auto& [name, needs] : dependents->as_object()) {
      if (!spend()) return false;
      if (!object.contains(name)) continue;
      if (!needs.is_array()) {
        if (!fits(needs, value, seen)) return false;
        continue;
      }
      for (const auto& other : needs.as_array()) {
        if (other.is_string() && !object.contains(other.as_string()))
          return refuse(fmt::format("must have {} beside {}", quoted(other.as_string()), quoted(name)));
      }
    }
  }
  return true;
}

}  // namespace cove::schema
