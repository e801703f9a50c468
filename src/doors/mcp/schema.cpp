#include "doors/mcp/schema.hpp"

namespace cove::doors::mcp {

namespace json = boost::json;

json::object schema(Properties properties, Names required) {
  json::object all;
  for (const auto& [name, property] : properties) all[name] = property;
  json::object out{{"type", "object"}, {"properties", std::move(all)}};
  if (required.size() == 0) return out;
  json::array needed;
  for (const auto name : required) needed.emplace_back(name);
  out["required"] = std::move(needed);
  return out;
}

json::object with_properties(json::object schema, Properties properties) {
  auto& all = schema["properties"].as_object();
  for (const auto& [name, property] : properties) all[name] = property;
  return schema;
}

json::object session_schema(const config::Languages& languages, Properties properties, Names required) {
  return with_properties(schema(properties, required),
                         {{"session_id", session_property()}, {"language", language_property(languages, "python")}});
}

json::object property(std::string_view type, std::string_view description) {
  json::object out{{"type", type}};
  if (!description.empty()) out["description"] = description;
  return out;
}

json::object nullable(std::string_view type, std::string_view description) {
  auto out = property(type, description);
  out["type"] = json::array{type, "null"};
  return out;
}

json::object list_of(json::object items, std::string_view description) {
  auto out = property("array", description);
  out["items"] = std::move(items);
  return out;
}

json::object one_of(json::array words, std::string_view description) {
  auto out = property("string", description);
  out["enum"] = std::move(words);
  return out;
}

json::object map_of_strings(std::string_view description) {
  auto out = property("object", description);
  out["additionalProperties"] = json::object{{"type", "string"}};
  return out;
}

json::object session_property() {
  return property("string", "The session to use; without it, the default session of the language");
}

json::object language_property(const config::Languages& languages, std::string_view usual) {
  json::array names;
  for (const auto& language : languages.all()) names.emplace_back(language.name);
  if (usual.empty()) return one_of(std::move(names), "The language of the code");
  auto out =
      one_of(std::move(names), "Selects the default session when there is no session_id; each language has its own");
  out["default"] = usual;
  return out;
}

json::object annotations(Hints hints) {
  return {{"readOnlyHint", hints.read_only},
          {"destructiveHint", hints.destructive},
          {"idempotentHint", hints.idempotent},
          {"openWorldHint", false}};
}

}  // namespace cove::doors::mcp
