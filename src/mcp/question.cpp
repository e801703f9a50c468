#include "mcp/question.hpp"

namespace cove::mcp {
namespace {

namespace json = boost::json;

bool asks_for_a_visit(const Question& question) {
  const auto* mode = question.params.if_contains("mode");
  return mode != nullptr && mode->is_string() && mode->as_string() == "url";
}

const json::object* find_object(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr ? value->if_object() : nullptr;
}

}  // namespace

Question elicitation(std::string key, std::string message, json::object schema) {
  return {.key = std::move(key),
          .method = "elicitation/create",
          .params = {{"message", std::move(message)}, {"requestedSchema", std::move(schema)}}};
}

json::object needed_for(const Question& question) {
  if (question.method == "sampling/createMessage")
    return {{"sampling", question.params.contains("tools") ? json::object{{"tools", json::object()}} : json::object()}};
  if (question.method == "elicitation/create")
    return {{"elicitation", asks_for_a_visit(question) ? json::object{{"url", json::object()}} : json::object()}};
  return {{"roots", json::object()}};
}

bool declared(const json::object& capabilities, const json::object& needed) {
  for (const auto& [name, wanted] : needed) {
    const auto* said = find_object(capabilities, name);
    if (said == nullptr) return false;
    for (const auto& [part, value] : wanted.as_object()) {
      if (!said->contains(part)) return false;
    }
    // One who takes addresses alone takes no forms; who says neither takes forms.
    const bool form = name == "elicitation" && wanted.as_object().empty();
    if (form && said->contains("url") && !said->contains("form")) return false;
  }
  return true;
}

bool known_in(Revision revision, const Question& question) {
  if (question.method != "elicitation/create") return true;
  return asks_for_a_visit(question) ? revision >= Revision::v2025_11_25 : has_structure(revision);
}

const json::object* accepted(const Answers& answers, const std::string& key) {
  const auto found = answers.find(key);
  if (found == answers.end() || !found->second) return nullptr;
  const auto* action = found->second->if_contains("action");
  if (action == nullptr || !action->is_string() || action->as_string() != "accept") return nullptr;
  return find_object(*found->second, "content");
}

bool agreed(const Answers& answers, const std::string& key) {
  const auto* form = accepted(answers, key);
  const auto* value = form != nullptr ? form->if_contains(key) : nullptr;
  return value != nullptr && value->is_bool() && value->as_bool();
}

}  // namespace cove::mcp
