#include "tools/codegen/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "tools/codegen/literal.hpp"

namespace cove::tools::codegen {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxMembers = 32;   // of a union or a list of constants in a signature
constexpr std::size_t kMaxText = 400;     // of a type in a signature
constexpr std::size_t kMaxMerged = 1000;  // properties

std::string decoded(std::string_view part) {
  std::string out;
  for (std::size_t at = 0; at < part.size(); ++at) {
    const auto pair = part.substr(at, 2);
    if (pair == "~0" || pair == "~1") {
      out += pair == "~0" ? '~' : '/';
      ++at;
    } else {
      out += part[at];
    }
  }
  return out;
}

const json::value* step(const json::value& at, const std::string& part) {
  if (const auto* object = at.if_object()) return object->if_contains(part);
  const auto* array = at.if_array();
  std::size_t index = 0;
  const auto* end = part.data() + part.size();
  if (array == nullptr || std::from_chars(part.data(), end, index).ptr != end || index >= array->size()) return nullptr;
  return &(*array)[index];
}

void merge_into(json::object& out, const json::object& schema, const json::object& root, std::size_t depth) {
  if (depth > kMaxDepth) return;
  if (const auto reference = text_in(schema, "$ref"); !reference.empty()) {
    const auto* target = resolve(root, reference);
    if (target != nullptr && target->is_object()) merge_into(out, target->get_object(), root, depth + 1);
  }
  if (const auto* parts = array_in(schema, "allOf")) {
    for (const auto& part : *parts) {
      if (part.is_object()) merge_into(out, part.get_object(), root, depth + 1);
    }
  }
  for (const auto& [name, value] : schema) {
    if (name == "$ref" || name == "allOf") continue;
    if (name == "properties" && value.is_object()) {
      auto& properties = out["properties"];
      if (!properties.is_object()) properties.emplace_object();
      for (const auto& [property, of_property] : value.get_object()) {
        if (properties.get_object().size() < kMaxMerged) properties.get_object()[property] = of_property;
      }
    } else if (name == "required" && value.is_array()) {
      auto& required = out["required"];
      if (!required.is_array()) required.emplace_array();
      for (const auto& property : value.get_array()) {
        if (required.get_array().size() < kMaxMerged) required.get_array().push_back(property);
      }
    } else {
      out[name] = value;
    }
  }
}

std::string joined(std::vector<std::string> types) {
  std::vector<std::string> kept;
  bool optional = false;
  for (auto& type : types) {
    if (type == "None")
      optional = true;
    else if (std::ranges::find(kept, type) == kept.end())
      kept.push_back(std::move(type));
  }
  if (kept.empty()) return optional ? "None" : "Any";
  if (std::ranges::find(kept, "Any") != kept.end()) return "Any";
  const auto text = kept.size() == 1 ? kept.front() : fmt::format("Union[{}]", fmt::join(kept, ", "));
  return optional ? fmt::format("Optional[{}]", text) : text;
}

std::string plain(const json::value& value, const json::object& root, std::size_t depth);

std::string of_kind(std::string_view kind, const json::object& schema, const json::object& root, std::size_t depth) {
  if (kind == "string") return text_in(schema, "format") == "binary" ? "bytes" : "str";
  if (kind == "integer") return "int";
  if (kind == "number") return "float";
  if (kind == "boolean") return "bool";
  if (kind == "null") return "None";
  if (kind == "array") {
    const auto* items = schema.if_contains("items");
    return fmt::format("List[{}]", items == nullptr ? "Any" : plain(*items, root, depth + 1));
  }
  if (kind == "object") {
    const auto* others = object_in(schema, "additionalProperties");
    const bool open = others != nullptr && object_in(schema, "properties") == nullptr;
    return fmt::format("Dict[str, {}]",
                       open ? plain(*schema.if_contains("additionalProperties"), root, depth + 1) : "Any");
  }
  return "Any";
}

std::string of_constants(const json::array& values) {
  std::string out;
  bool optional = false;
  for (const auto& value : values) {
    if (value.is_null())
      optional = true;
    else if (value.is_string() || value.is_int64() || value.is_bool())
      out += (out.empty() ? "" : ", ") + constant(value);
    else
      return "Any";
  }
  if (out.empty()) return "Any";
  return fmt::format(fmt::runtime(optional ? "Optional[Literal[{}]]" : "Literal[{}]"), out);
}

std::string plain(const json::value& value, const json::object& root, std::size_t depth) {
  const auto* schema = value.if_object();
  if (schema == nullptr || depth > 6) return "Any";
  if (const auto reference = text_in(*schema, "$ref"); !reference.empty()) {
    const auto* target = resolve(root, reference);
    return target == nullptr ? "Any" : plain(*target, root, depth + 1);
  }
  if (const auto* same = schema->if_contains("const")) return of_constants({*same});
  if (const auto* values = array_in(*schema, "enum"))
    return values->size() > kMaxMembers ? of_kind(text_in(*schema, "type"), *schema, root, depth)
                                        : of_constants(*values);
  for (const auto* name : {"anyOf", "oneOf"}) {
    const auto* choices = array_in(*schema, name);
    if (choices == nullptr || choices->empty() || choices->size() > kMaxMembers) continue;
    std::vector<std::string> types;
    for (const auto& choice : *choices) types.push_back(plain(choice, root, depth + 1));
    return joined(std::move(types));
  }
  if (array_in(*schema, "allOf") != nullptr) return "Dict[str, Any]";
  if (const auto* kinds = array_in(*schema, "type")) {
    std::vector<std::string> types;
    for (const auto& kind : *kinds) {
      if (kind.is_string() && types.size() < 8) types.push_back(of_kind(kind.get_string(), *schema, root, depth));
    }
    return joined(std::move(types));
  }
  if (const auto kind = text_in(*schema, "type"); !kind.empty()) return of_kind(kind, *schema, root, depth);
  return object_in(*schema, "properties") != nullptr ? "Dict[str, Any]" : "Any";
}

}  // namespace

const json::object* object_in(const json::object& schema, std::string_view name) {
  const auto* value = schema.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

const json::array* array_in(const json::object& schema, std::string_view name) {
  const auto* value = schema.if_contains(name);
  return value == nullptr ? nullptr : value->if_array();
}

std::string_view text_in(const json::object& schema, std::string_view name) {
  const auto* value = schema.if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

const json::value* resolve(const json::object& root, std::string_view reference) {
  if (!reference.starts_with("#/") || reference.size() > 1000) return nullptr;
  reference.remove_prefix(2);
  auto slash = reference.find('/');
  const auto* at = root.if_contains(decoded(reference.substr(0, slash)));
  while (at != nullptr && slash != std::string_view::npos) {
    reference.remove_prefix(slash + 1);
    slash = reference.find('/');
    at = step(*at, decoded(reference.substr(0, slash)));
  }
  return at;
}

bool is_required(const json::object& schema, std::string_view property) {
  const auto* required = array_in(schema, "required");
  return required != nullptr && std::ranges::any_of(*required, [&](const json::value& name) {
           return name.is_string() && std::string_view(name.get_string()) == property;
         });
}

json::object merged(const json::object& schema, const json::object& root) {
  json::object out;
  merge_into(out, schema, root, 0);
  return out;
}

std::string plain_type(const json::value& schema, const json::object& root) {
  auto text = plain(schema, root, 0);
  return text.size() > kMaxText ? "Any" : text;
}

}  // namespace cove::tools::codegen
