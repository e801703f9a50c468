#include "mcp/rounds.hpp"

#include <algorithm>

#include "base/sha256.hpp"

namespace cove::mcp {
namespace {

namespace json = boost::json;

constexpr std::chrono::hours kLife{1};  // a person may have to be found
constexpr std::size_t kMaxState = std::size_t{256} << 10;

// The same for two that differ in the order of their members.
void write_in_order(const json::value& value, Sha256& to) {
  if (const auto* object = value.if_object()) {
    std::vector<std::string_view> names;
    for (const auto& [name, member] : *object) names.push_back(name);
    std::ranges::sort(names);
    to.add("{");
    for (const auto name : names) {
      to.add(json::serialize(json::value(name)));
      write_in_order(object->at(name), to);
    }
    to.add("}");
  } else if (const auto* array = value.if_array()) {
    to.add("[");
    for (const auto& element : *array) write_in_order(element, to);
    to.add("]");
  } else {
    to.add(json::serialize(value));
    to.add(",");
  }
}

// Whose it is and for which call.
json::object facts_of(const Call& call) {
  auto asked = call.params;
  for (const auto* name : {"_meta", "inputResponses", "requestState"}) asked.erase(name);
  Sha256 digest;
  write_in_order(asked, digest);
  return {{"tenant", call.tenant}, {"key", call.key_id}, {"method", call.method}, {"asked", digest.hex()}};
}

}  // namespace

bool may_ask_in(std::string_view method) {
  return method == "tools/call" || method == "prompts/get" || method == "resources/read";
}

Or<std::shared_ptr<Rounds>> Rounds::open(const Call& call, const Seal& seal) {
  auto facts = facts_of(call);
  json::object said;
  if (const auto* state = call.params.if_contains("requestState"); state != nullptr && !state->is_null()) {
    auto kept = state->is_string() ? seal.open(state->as_string()) : std::nullopt;
    if (!kept || kept->at("facts") != facts)
      return fault(Code::invalid_params, "Invalid params: requestState does not belong to this call");
    said = std::move(kept->at("said").as_object());
  }
  if (const auto* answers = call.params.if_contains("inputResponses"); answers != nullptr && !answers->is_null()) {
    if (!answers->is_object()) return fault(Code::invalid_params, "Invalid params: inputResponses must be an object");
    for (const auto& [key, answer] : answers->as_object()) {
      if (!answer.is_object())
        return fault(Code::invalid_params, "Invalid params: each of inputResponses must be an object");
      said[key] = answer;
    }
  }
  return std::make_shared<Rounds>(seal, std::move(facts), std::move(said));
}

Task<Asked> Rounds::ask(Call& call, std::vector<Question> questions) {
  const auto instead = [](Or<> answer) { return tl::unexpected<Or<>>(std::move(answer)); };
  Answers answers;
  json::object open;
  for (const auto& question : questions) {
    if (const auto* answer = said_.if_contains(question.key))
      answers.emplace(question.key, answer->as_object());
    else
      open[question.key] = {{"method", question.method}, {"params", question.params}};
  }
  if (open.empty()) co_return answers;
  json::object kept{{"facts", state_}, {"said", said_}};
  if (json::serialize(kept).size() > kMaxState)
    co_return instead(fault(Code::invalid_params, "Invalid params: inputResponses are too large"));
  co_return instead(json::object{{"resultType", "input_required"},
                                 {"inputRequests", std::move(open)},
                                 {"requestState", seal_.close(kept, kLife)}});
}

}  // namespace cove::mcp
