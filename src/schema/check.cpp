#include "schema/check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "schema/code_points.hpp"
#include "schema/values.hpp"

namespace cove::schema {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxPlace = 400;

const json::value* keyword(const json::object& schema, std::string_view name) {
  return schema.if_contains(name);
}

// A keyword that counts something.
std::optional<std::size_t> count_of(const json::object& schema, std::string_view name) {
  const auto* value = keyword(schema, name);
  if (value == nullptr || !value->is_number() || value->to_number<double>() < 0) return std::nullopt;
  return static_cast<std::size_t>(std::min(value->to_number<double>(), 1e15));
}

bool is_type(std::string_view type, const json::value& value) {
  if (type == "string") return value.is_string();
  if (type == "integer") return is_integer(value);
  if (type == "number") return value.is_number();
  if (type == "boolean") return value.is_bool();
  if (type == "null") return value.is_null();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  return true;  // a type that nobody knows
}

std::string a_type(std::string_view type) {
  if (type == "null") return "null";
  if (type == "boolean") return "true or false";
  return fmt::format("{} {}", type == "integer" || type == "array" || type == "object" ? "an" : "a", type);
}

std::string excerpt(const json::value& value) {
  auto text = json::serialize(value);
  if (text.size() > 100) text = replace_invalid_utf8(text.substr(0, 100)) + "…";
  return text;
}

}  // namespace

void Check::Seen::add(const Seen& other) {
  members.insert(other.members.begin(), other.members.end());
  items.insert(other.items.begin(), other.items.end());
  first_items = std::max(first_items, other.first_items);
  all_members = all_members || other.all_members;
  all_items = all_items || other.all_items;
}

Check::Check(const json::value& root, Limits limits) : references_(root), root_(root), limits_(limits) {
  if (!root.is_object()) return;
  const auto* dialect = root.as_object().if_contains("$schema");
  if (dialect == nullptr || !dialect->is_string()) return;
  const std::string_view name(dialect->as_string());
  older_ =
      name.find("draft-07") != name.npos || name.find("draft-06") != name.npos || name.find("draft-04") != name.npos;
}

std::optional<std::string> Check::run(const json::value& value) {
  Seen seen;
  const bool good = fits(root_, value, seen);
  if (costly_) return std::string(" cannot be checked: the schema is too deep or too costly");
  if (good) return std::nullopt;
  return fault_.value_or(" does not fit its schema");
}

bool Check::refuse(std::string why) {
  if (quiet_ == 0 && !fault_) fault_ = fmt::format("{} {}", place_, why);
  return false;
}

bool Check::spend() {
  if (limits_.steps == 0) costly_ = true;
  if (costly_) return false;
  --limits_.steps;
  return true;
}

bool Check::would_fit(const Value& schema, const Value& value, Seen& seen) {
  ++quiet_;
  const bool good = fits(schema, value, seen);
  --quiet_;
  return good;
}

bool Check::item_fits(const Value& schema, const json::array& items, std::size_t index) {
  const auto size = place_.size();
  if (size < kMaxPlace) place_ += fmt::format("[{}]", index);
  Seen inner;
  const bool good = fits(schema, items[index], inner);
  place_.resize(size);
  return good;
}

bool Check::member_fits(const Value& schema, const Value& member, std::string_view name) {
  const auto size = place_.size();
  if (size < kMaxPlace) place_ += "." + replace_invalid_utf8(name.substr(0, 100));
  Seen inner;
  const bool good = fits(schema, member, inner);
  place_.resize(size);
  return good;
}

bool Check::matches(std::string_view pattern, std::string_view text) {
  auto known = patterns_.find(pattern);
  if (known == patterns_.end()) known = patterns_.emplace(pattern, Pattern::compile(pattern)).first;
  // What cannot be checked is no rule.
  if (!known->second) return true;
  const bool found = known->second->found_in(text, limits_.steps);
  if (limits_.steps == 0) costly_ = true;
  return found;
}

bool Check::fits(const Value& schema, const Value& value, Seen& seen) {
  if (!spend()) return false;
  if (schema.is_bool()) return schema.as_bool() || refuse("must not be there");
  if (!schema.is_object()) return true;
  if (depth_ >= limits_.depth) {
    costly_ = true;
    return false;
  }
  ++depth_;
  Seen own;
  const bool good = fits_keywords(schema.as_object(), value, own);
  --depth_;
  if (good) seen.add(own);
  return good && !costly_;
}

bool Check::fits_keywords(const Object& schema, const Value& value, Seen& seen) {
  if (schema.contains("$ref") || schema.contains("$dynamicRef")) {
    if (!fits_reference(schema, value, seen)) return false;
    if (older_) return true;  // what stands beside it does not count
  }
  return fits_type(schema, value) && fits_number(schema, value) && fits_text(schema, value) &&
         fits_array(schema, value, seen) && fits_object(schema, value, seen) && fits_combined(schema, value, seen) &&
         fits_unevaluated(schema, value, seen);
}

bool Check::fits_reference(const Object& schema, const Value& value, Seen& seen) {
  for (const auto* name : {"$ref", "$dynamicRef"}) {
    const auto* reference = keyword(schema, name);
    if (reference == nullptr || !reference->is_string()) continue;
    const auto* target = references_.find(std::string_view(reference->as_string()));
    if (target != nullptr && !fits(*target, value, seen)) return false;
  }
  return true;
}

bool Check::fits_type(const Object& schema, const Value& value) {
  if (const auto* type = keyword(schema, "type")) {
    if (type->is_string() && !is_type(type->as_string(), value)) return refuse("must be " + a_type(type->as_string()));
    if (type->is_array()) {
      std::string names;
      bool good = false;
      for (const auto& one : type->as_array()) {
        if (!one.is_string()) continue;
        good = good || is_type(one.as_string(), value);
        names += (names.empty() ? "" : " or ") + a_type(one.as_string());
      }
      if (!good) return refuse("must be " + names);
    }
  }
  if (const auto* wanted = keyword(schema, "const"); wanted != nullptr && !equal(*wanted, value, limits_.steps))
    return refuse("must be " + excerpt(*wanted));
  if (const auto* among = keyword(schema, "enum"); among != nullptr && among->is_array()) {
    const auto is_it = [&](const Value& one) { return spend() && equal(one, value, limits_.steps); };
    if (!std::ranges::any_of(among->as_array(), is_it)) return refuse("must be one of " + excerpt(*among));
  }
  return true;
}

bool Check::fits_number(const Object& schema, const Value& value) {
  if (!value.is_number()) return true;
  const auto limit = [&](std::string_view name) -> const Value* {
    const auto* found = keyword(schema, name);
    return found != nullptr && found->is_number() ? found : nullptr;
  };
  if (const auto* most = limit("maximum"); most != nullptr && compare_numbers(value, *most) > 0)
    return refuse("must be at most " + excerpt(*most));
  if (const auto* least = limit("minimum"); least != nullptr && compare_numbers(value, *least) < 0)
    return refuse("must be at least " + excerpt(*least));
  if (const auto* above = limit("exclusiveMinimum"); above != nullptr && compare_numbers(value, *above) <= 0)
    return refuse("must be above " + excerpt(*above));
  if (const auto* below = limit("exclusiveMaximum"); below != nullptr && compare_numbers(value, *below) >= 0)
    return refuse("must be below " + excerpt(*below));
  if (const auto* part = limit("multipleOf");
      part != nullptr && part->to_number<double>() > 0 && !is_multiple(value, *part))
    return refuse("must be a multiple of " + excerpt(*part));
  return true;
}

bool Check::fits_text(const Object& schema, const Value& value) {
  if (!value.is_string()) return true;
  const std::string_view text(value.as_string());
  const auto least = count_of(schema, "minLength");
  const auto most = count_of(schema, "maxLength");
  if (least || most) {
    const auto size = code_points(text).size();
    if (least && size < *least) return refuse(fmt::format("must have at least {} characters", *least));
    if (most && size > *most) return refuse(fmt::format("must have at most {} characters", *most));
  }
  const auto* pattern = keyword(schema, "pattern");
  if (pattern == nullptr || !pattern->is_string() || matches(pattern->as_string(), text)) return true;
  return refuse("must match the pattern " + excerpt(*pattern));
}

bool Check::fits_combined(const Object& schema, const Value& value, Seen& seen) {
  if (const auto* all = keyword(schema, "allOf"); all != nullptr && all->is_array()) {
    for (const auto& one : all->as_array()) {
      if (!fits(one, value, seen)) return false;
    }
  }
  if (const auto* any = keyword(schema, "anyOf"); any != nullptr && any->is_array() && !any->as_array().empty()) {
    bool good = false;
    // Each of them, since each may speak of members that the others do not.
    for (const auto& one : any->as_array()) good = would_fit(one, value, seen) || good;
    if (!good) return refuse("fits none of the possibilities (anyOf)");
  }
  if (const auto* one_of = keyword(schema, "oneOf");
      one_of != nullptr && one_of->is_array() && !one_of->as_array().empty()) {
    if (!fits_one_of(one_of->as_array(), value, seen)) return false;
  }
  if (const auto* no = keyword(schema, "not")) {
    Seen nothing;
    if (would_fit(*no, value, nothing)) return refuse("fits what it must not (not)");
  }
  if (const auto* condition = keyword(schema, "if")) {
    const auto* then = keyword(schema, would_fit(*condition, value, seen) ? "then" : "else");
    if (then != nullptr && !fits(*then, value, seen)) return false;
  }
  return !costly_;
}

bool Check::fits_one_of(const json::array& schemas, const Value& value, Seen& seen) {
  std::size_t good = 0;
  Seen of_it;
  for (const auto& one : schemas) {
    if (would_fit(one, value, of_it)) ++good;
  }
  if (good == 0) return refuse("fits none of the possibilities (oneOf)");
  if (good > 1) return refuse(fmt::format("fits {} of the possibilities, and must fit one (oneOf)", good));
  seen.add(of_it);
  return true;
}

bool Check::fits_unevaluated(const Object& schema, const Value& value, Seen& seen) {
  if (const auto* rest = keyword(schema, "unevaluatedItems"); rest != nullptr && value.is_array() && !seen.all_items) {
    const auto& items = value.as_array();
    for (std::size_t i = seen.first_items; i < items.size(); ++i) {
      if (!seen.items.contains(i) && !item_fits(*rest, items, i)) return false;
    }
    seen.all_items = true;
  }
  if (const auto* rest = keyword(schema, "unevaluatedProperties");
      rest != nullptr && value.is_object() && !seen.all_members) {
    for (const auto& [name, member] : value.as_object()) {
      if (!seen.members.contains(std::string_view(name)) && !member_fits(*rest, member, name)) return false;
    }
    seen.all_members = true;
  }
  return true;
}

std::optional<std::string> find_fault(const json::object& schema, const json::value& value, Limits limits) {
  const json::value root(schema);
  Check check(root, limits);
  return check.run(value);
}

}  // namespace cove::schema
