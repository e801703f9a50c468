#include "tools/codegen/models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/codegen/literal.hpp"
#include "tools/codegen/schema.hpp"

namespace cove::tools::codegen {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxClasses = 500;
constexpr std::size_t kMaxText = 1U << 20;
constexpr std::size_t kMaxFields = 1'000;
constexpr std::size_t kMaxDefault = 1'000;  // bytes of a default

struct Import {
  std::string_view module;
  std::vector<std::string_view> names;
};
const std::array<Import, 5>& import_table() {
  static const std::array<Import, 5> kImports{{
      {"datetime", {"date", "datetime", "time", "timedelta"}},
      {"enum", {"Enum"}},
      {"ipaddress", {"IPv4Address", "IPv6Address"}},
      {"typing", {"Any", "Dict", "List", "Literal", "Optional", "Union"}},
      {"uuid", {"UUID"}},
  }};
  return kImports;
}
constexpr auto kOfModels = std::to_array<std::string_view>(
    {"AnyUrl", "BaseModel", "ConfigDict", "EmailStr", "Field", "confloat", "conint", "constr"});

std::string import_of(std::string_view module, const auto& names, const std::set<std::string, std::less<>>& used) {
  std::vector<std::string_view> here;
  for (const auto name : names) {
    if (used.contains(name)) here.push_back(name);
  }
  return here.empty() ? std::string() : fmt::format("from {} import {}\n", module, fmt::join(here, ", "));
}

// The identifiers in a type, outside of texts.
std::set<std::string> identifiers(std::string_view type) {
  std::set<std::string> out;
  std::string word;
  bool in_text = false;
  for (std::size_t at = 0; at <= type.size(); ++at) {
    const char c = at < type.size() ? type[at] : ' ';
    if (in_text) {
      if (c == '\\') ++at;
      in_text = c != '"';
      continue;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_') {
      word += c;
    } else {
      if (!word.empty()) out.insert(std::exchange(word, {}));
      in_text = c == '"';
    }
  }
  return out;
}

// Whether a default is a value of this type. Any other would be told to the server as it is.
bool fits(const json::value& value, const json::object& schema) {
  const auto kind = text_in(schema, "type");
  if (const auto* values = array_in(schema, "enum")) return std::ranges::find(*values, value) != values->end();
  if (kind == "string") return value.is_string();
  if (kind == "integer") return value.is_int64();
  if (kind == "number") return value.is_number();
  if (kind == "boolean") return value.is_bool();
  if (kind == "array") return value.is_array();
  if (kind == "object") return value.is_object();
  return true;
}

bool says(const json::object& schema, std::string_view name, bool wanted) {
  const auto* value = schema.if_contains(name);
  return value != nullptr && value->is_bool() && value->get_bool() == wanted;
}

}  // namespace

std::set<std::string, std::less<>> Models::reserved() {
  std::set<std::string, std::less<>> names{"Params", "Result", "CLIENT", "SERVER_PARAMS", "None", "True", "False"};
  for (const auto& [module, of_module] : import_table()) names.insert(of_module.begin(), of_module.end());
  names.insert(kOfModels.begin(), kOfModels.end());
  return names;
}

bool Models::full() const {
  return count_ >= kMaxClasses || classes_.size() > kMaxText;
}

Result<> Models::add_root(const json::object& schema, std::string_view name) {
  const auto whole = merged(schema, schema);
  root_ = &whole;
  references_.clear();
  references_["#"] = {.text = std::string(name)};
  early_.clear();
  write_class(whole, std::string(name), 0);
  for (const auto& early : early_) classes_ += fmt::format("{}.model_rebuild()\n", early);
  if (!early_.empty()) classes_ += "\n\n";
  root_ = nullptr;
  if (full())
    return fail(Errc::over_limit, fmt::format("its schema makes more than {} classes, or more than {} KiB of them",
                                              kMaxClasses, kMaxText >> 10));
  return {};
}

std::string Models::write_class(const json::object& schema, std::string name, std::size_t depth) {
  if (depth > kMaxDepth || full()) return any().text;
  ++count_;
  open_.insert(name);
  const auto* properties = object_in(schema, "properties");
  std::vector<Field> fields;
  bool enumerates = false;
  std::set<std::string> in_types;
  if (properties != nullptr) {
    for (const auto& [property, of_property] : *properties) {
      if (fields.size() >= kMaxFields) break;
      // The types first: they may need classes, which stand before this one.
      auto type = type_of(of_property, property, depth + 1);
      enumerates = enumerates || type.enumeration;
      in_types.merge(identifiers(type.text));
      fields.push_back({.property = property,
                        .schema = &of_property,
                        .required = is_required(schema, property),
                        .type = std::move(type)});
    }
  }
  std::string body;
  Names taken;
  bool aliases = false;
  for (const auto& one : fields) {
    auto given = field_name(one.property);
    if (in_types.contains(given) || given == "Optional" || given == "Field") given += '_';  // it would hide the type
    given = taken.take(std::move(given), "_");
    aliases = aliases || given != one.property;
    body += field(one, given);
  }
  std::vector<std::string> settings;
  if (says(schema, "additionalProperties", false)) settings.emplace_back(R"(extra="forbid")");
  const bool open = says(schema, "additionalProperties", true) ||
                    object_in(schema, "additionalProperties") != nullptr ||
                    (fields.empty() && (array_in(schema, "anyOf") != nullptr || array_in(schema, "oneOf") != nullptr));
  if (open) settings.emplace_back(R"(extra="allow")");
  if (aliases) settings.emplace_back("populate_by_name=True");
  if (enumerates) settings.emplace_back("use_enum_values=True");
  classes_ += fmt::format("class {}({}):\n", name, use("BaseModel"));
  if (!settings.empty())
    classes_ += fmt::format("    model_config = {}({})\n", use("ConfigDict"), fmt::join(settings, ", "));
  classes_ += body.empty() && settings.empty() ? "    pass\n" : body;
  classes_ += "\n\n";
  open_.erase(name);
  // It refers to what is written behind it.
  if (std::ranges::any_of(in_types, [this](const auto& used) { return open_.contains(used); })) early_.push_back(name);
  return name;
}

std::string Models::field(const Field& field, const std::string& name) {
  const auto* schema = field.schema->if_object();
  const bool optional = field.type.optional || !field.required;
  const auto annotation =
      optional && field.type.text != "Any" ? fmt::format("{}[{}]", use("Optional"), field.type.text) : field.type.text;
  const auto* same = schema == nullptr ? nullptr : schema->if_contains("const");
  std::string preset = field.required ? "..." : "None";
  if (same != nullptr && field.type.text.starts_with("Literal[")) {
    preset = constant(*same);
  } else if (!field.required && schema != nullptr) {
    const auto* given = schema->if_contains("default");
    if (given != nullptr && !given->is_null() && fits(*given, *schema)) {
      if (auto text = constant(*given); text.size() <= kMaxDefault) preset = std::move(text);
    }
  }
  std::vector<std::string> details;
  if (name != field.property) details.push_back("alias=" + string_literal(field.property));
  const auto title = schema == nullptr ? std::string_view() : text_in(*schema, "title");
  if (!title.empty()) details.push_back("title=" + string_literal(title));
  std::string value;
  if (!details.empty())
    value = fmt::format(" = {}({}, {})", use("Field"), preset, fmt::join(details, ", "));
  else if (preset != "...")
    value = " = " + preset;
  auto line = fmt::format("    {}: {}{}\n", name, annotation, value);
  const auto description = schema == nullptr ? std::string_view() : text_in(*schema, "description");
  if (!description.empty()) line += "    " + docstring(fmt::format("\n{}\n", description)) + "\n";
  return line;
}

std::string Models::imports() const {
  std::string out;
  for (const auto& [module, names] : import_table()) out += import_of(module, names, used_);
  const auto of_models = import_of("cove.tools.models", kOfModels, used_);
  return of_models.empty() || out.empty() ? out + of_models : out + "\n" + of_models;
}

}  // namespace cove::tools::codegen
