// What type a schema becomes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "tools/codegen/literal.hpp"
#include "tools/codegen/models.hpp"
#include "tools/codegen/pattern.hpp"
#include "tools/codegen/schema.hpp"

namespace cove::tools::codegen {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxSteps = 20'000;   // schemas looked at, of one module
constexpr std::size_t kMaxMembers = 1'000;  // of an enumeration
constexpr std::size_t kMaxChoices = 100;

constexpr auto kFormats = std::to_array<std::pair<std::string_view, std::string_view>>({{"uri", "AnyUrl"},
                                                                                        {"date-time", "datetime"},
                                                                                        {"date", "date"},
                                                                                        {"time", "time"},
                                                                                        {"duration", "timedelta"},
                                                                                        {"uuid", "UUID"},
                                                                                        {"email", "EmailStr"},
                                                                                        {"ipv4", "IPv4Address"},
                                                                                        {"ipv6", "IPv6Address"},
                                                                                        {"byte", "str"},
                                                                                        {"binary", "bytes"}});

bool all_of_kind(const json::array& values, json::kind kind) {
  return std::ranges::all_of(values, [kind](const json::value& value) { return value.kind() == kind; });
}

// A bound as a number in Python; "" when it is none.
std::string bound(const json::object& schema, std::string_view name, bool whole) {
  const auto* value = schema.if_contains(name);
  if (value == nullptr || !value->is_number()) return {};
  if (value->is_double() && (!std::isfinite(value->get_double()) || (whole && std::fabs(value->get_double()) > 9e15)))
    return {};
  if (whole && value->is_double()) {
    if (std::floor(value->get_double()) != value->get_double()) return {};
    return fmt::format("{}", static_cast<std::int64_t>(value->get_double()));
  }
  return constant(*value);
}

std::int64_t count_in(const json::object& schema, std::string_view name) {
  const auto* value = schema.if_contains(name);
  return value != nullptr && value->is_int64() ? value->get_int64() : -1;
}

}  // namespace

std::string Models::use(std::string_view name) {
  used_.insert(std::string(name));
  return std::string(name);
}

Models::Type Models::any() {
  return {.text = use("Any")};
}

Models::Type Models::type_of(const json::value& value, std::string_view hint, std::size_t depth) {
  const auto* schema = value.if_object();
  if (schema == nullptr || depth > kMaxDepth || ++steps_ > kMaxSteps || full()) return any();
  if (const auto reference = text_in(*schema, "$ref"); !reference.empty()) return of_reference(reference, depth);
  if (const auto* same = schema->if_contains("const")) {
    if (same->is_null()) return {.text = use("Any"), .optional = true};
    if (!same->is_string() && !same->is_int64() && !same->is_bool()) return any();
    return {.text = fmt::format("{}[{}]", use("Literal"), constant(*same))};
  }
  if (const auto* values = array_in(*schema, "enum"); values != nullptr && !values->empty())
    return of_enumeration(*values, hint);
  for (const auto* name : {"anyOf", "oneOf"}) {
    const auto* choices = array_in(*schema, name);
    if (choices != nullptr && !choices->empty() && object_in(*schema, "properties") == nullptr)
      return of_choices(*choices, hint, depth);
  }
  if (const auto* parts = array_in(*schema, "allOf"); parts != nullptr && !parts->empty()) {
    const bool alone = parts->size() == 1 && object_in(*schema, "properties") == nullptr;
    return alone ? type_of(parts->front(), hint, depth + 1) : of_object(merged(*schema, *root_), hint, depth);
  }
  if (const auto* kinds = array_in(*schema, "type")) {
    json::array choices;
    for (const auto& kind : *kinds) {
      if (!kind.is_string() || choices.size() >= 8) continue;
      auto one = *schema;
      one["type"] = kind;
      choices.emplace_back(std::move(one));
    }
    return choices.empty() ? any() : of_choices(choices, hint, depth);
  }
  auto kind = text_in(*schema, "type");
  if (kind.empty() && object_in(*schema, "properties") != nullptr) kind = "object";
  if (kind.empty() && schema->if_contains("items") != nullptr) kind = "array";
  auto type = of_kind(kind, *schema, hint, depth);
  const auto* nullable = schema->if_contains("nullable");
  if (nullable != nullptr && nullable->is_bool() && nullable->get_bool()) type.optional = true;
  return type;
}

Models::Type Models::of_kind(std::string_view kind, const json::object& schema, std::string_view hint,
                             std::size_t depth) {
  if (kind == "string") return of_text(schema);
  if (kind == "integer" || kind == "number") return of_number(schema, kind);
  if (kind == "boolean") return {.text = "bool"};
  if (kind == "null") return {.text = use("Any"), .optional = true};
  if (kind == "object") return of_object(schema, hint, depth);
  if (kind != "array") return any();
  const auto* items = schema.if_contains("items");
  if (items == nullptr || !items->is_object()) return {.text = fmt::format("{}[{}]", use("List"), use("Any"))};
  const auto element = type_of(*items, singular(hint), depth + 1);
  const auto text =
      element.optional && element.text != "Any" ? fmt::format("{}[{}]", use("Optional"), element.text) : element.text;
  return {.text = fmt::format("{}[{}]", use("List"), text), .enumeration = element.enumeration};
}

Models::Type Models::of_object(const json::object& schema, std::string_view hint, std::size_t depth) {
  const auto* properties = object_in(schema, "properties");
  if (properties != nullptr && !properties->empty())
    return {.text = write_class(schema, names_.take(class_name(hint), ""), depth)};
  const auto* others = schema.if_contains("additionalProperties");
  if (others == nullptr || !others->is_object()) return {.text = fmt::format("{}[str, {}]", use("Dict"), use("Any"))};
  const auto value = type_of(*others, singular(hint), depth + 1);
  const auto text =
      value.optional && value.text != "Any" ? fmt::format("{}[{}]", use("Optional"), value.text) : value.text;
  return {.text = fmt::format("{}[str, {}]", use("Dict"), text), .enumeration = value.enumeration};
}

Models::Type Models::of_reference(std::string_view reference, std::size_t depth) {
  if (const auto known = references_.find(reference); known != references_.end()) return known->second;
  const auto* target = resolve(*root_, reference);
  if (target == nullptr || !target->is_object()) return any();
  const auto name = reference.substr(reference.rfind('/') + 1);
  const auto* properties = object_in(target->get_object(), "properties");
  // Known before it is written: it may refer to itself.
  if (properties != nullptr && !properties->empty() && array_in(target->get_object(), "allOf") == nullptr) {
    const auto given = names_.take(class_name(name), "");
    references_[std::string(reference)] = {.text = given};
    if (write_class(target->get_object(), given, depth + 1) != given) references_[std::string(reference)] = any();
    return references_[std::string(reference)];
  }
  references_[std::string(reference)] = any();  // of a chain of references that bites its tail
  auto type = type_of(*target, name, depth + 1);
  references_[std::string(reference)] = type;
  return type;
}

Models::Type Models::of_choices(const json::array& choices, std::string_view hint, std::size_t depth) {
  Type type;
  std::vector<std::string> texts;
  if (choices.size() > kMaxChoices) return any();
  for (const auto& choice : choices) {
    if (choice.is_object() && text_in(choice.get_object(), "type") == "null") {
      type.optional = true;
      continue;
    }
    auto one = type_of(choice, hint, depth + 1);
    type.optional = type.optional || one.optional;
    type.enumeration = type.enumeration || one.enumeration;
    if (std::ranges::find(texts, one.text) == texts.end()) texts.push_back(std::move(one.text));
  }
  if (texts.empty() || std::ranges::find(texts, "Any") != texts.end())
    return {.text = use("Any"), .optional = type.optional};
  type.text = texts.size() == 1 ? texts.front() : fmt::format("{}[{}]", use("Union"), fmt::join(texts, ", "));
  return type;
}

Models::Type Models::of_enumeration(const json::array& values, std::string_view hint) {
  Type type;
  json::array kept;
  for (const auto& value : values) {
    if (value.is_null())
      type.optional = true;
    else
      kept.push_back(value);
  }
  if (kept.empty() || kept.size() > kMaxMembers) return {.text = use("Any"), .optional = type.optional};
  const bool texts = all_of_kind(kept, json::kind::string);
  if (!texts && !all_of_kind(kept, json::kind::int64)) {
    const bool plain = std::ranges::all_of(
        kept, [](const json::value& value) { return value.is_string() || value.is_int64() || value.is_bool(); });
    if (!plain) return {.text = use("Any"), .optional = type.optional};
    type.text = use("Literal") + "[";
    for (const auto& value : kept) type.text += (type.text.ends_with('[') ? "" : ", ") + constant(value);
    type.text += "]";
    return type;
  }
  type.text = names_.take(class_name(hint), "");
  type.enumeration = true;
  ++count_;
  std::string body;
  Names members;
  for (const auto& value : kept) {
    const auto name = texts ? member_name(std::string_view(value.get_string()))
                      : value.get_int64() < 0
                          ? fmt::format("integer__{}", static_cast<std::uint64_t>(-(value.get_int64() + 1)) + 1)
                          : fmt::format("integer_{}", value.get_int64());
    body += fmt::format("    {} = {}\n", members.take(name, "_"), constant(value));
  }
  classes_ += fmt::format("class {}({}):\n{}\n\n", type.text, use("Enum"), body);
  return type;
}

Models::Type Models::of_text(const json::object& schema) {
  const auto format = text_in(schema, "format");
  const auto known = std::ranges::find(kFormats, format, &std::pair<std::string_view, std::string_view>::first);
  if (known != kFormats.end())
    return {.text =
                known->second == "str" || known->second == "bytes" ? std::string(known->second) : use(known->second)};
  std::vector<std::string> limits;
  const auto least = count_in(schema, "minLength");
  const auto most = count_in(schema, "maxLength");
  if (least >= 0) limits.push_back(fmt::format("min_length={}", least));
  if (most >= 0) limits.push_back(fmt::format("max_length={}", most));
  const auto pattern = text_in(schema, "pattern");
  if (!pattern.empty() && common_pattern(pattern)) limits.push_back("pattern=" + string_literal(pattern));
  if (limits.empty()) return {.text = "str"};
  return {.text = fmt::format("{}({})", use("constr"), fmt::join(limits, ", "))};
}

Models::Type Models::of_number(const json::object& schema, std::string_view kind) {
  const bool whole = kind == "integer";
  // The bounds of draft 4 are marked as exclusive by a boolean beside them.
  const auto marked = [&](std::string_view name) {
    const auto* value = schema.if_contains(name);
    return value != nullptr && value->is_bool() && value->get_bool();
  };
  std::vector<std::string> limits;
  const auto add = [&](std::string_view word, std::string_view name) {
    if (const auto text = bound(schema, name, whole); !text.empty()) limits.push_back(fmt::format("{}={}", word, text));
  };
  add(marked("exclusiveMinimum") ? "gt" : "ge", "minimum");
  add(marked("exclusiveMaximum") ? "lt" : "le", "maximum");
  add("gt", "exclusiveMinimum");
  add("lt", "exclusiveMaximum");
  const std::string_view plain = whole ? "int" : "float";
  if (limits.empty()) return {.text = std::string(plain)};
  return {.text = fmt::format("{}({})", use(whole ? "conint" : "confloat"), fmt::join(limits, ", "))};
}

}  // namespace cove::tools::codegen
