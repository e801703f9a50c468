#include <array>

#include "base/random_name.hpp"
#include "doors/sandboxes/kernel_answers.hpp"
#include "doors/sandboxes/kernel_requests.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kMaxVariables = 10'000;
constexpr std::uint64_t kMaxPreview = 4096;

// Asks the kernel a question, and answers with its reply in the form that `shape` gives it.
using Shape = json::object (*)(const sandbox::Execution& answered);

Task<Answer> put_question(Services& services, http::Exchange& exchange, std::string op, Result<json::object> content,
                          Shape shape) {
  COVE_CO_TRY(const auto named, co_await find_kernel(services, exchange.request(), Need::to_speak));
  COVE_CO_TRY(auto asked, std::move(content));
  const sandbox::Sandbox::Activity activity(named.sandbox);
  COVE_CO_TRY(const auto reply, co_await named.kernel->ask(std::move(op), std::move(asked),
                                                           [&exchange] { return exchange.client_gone(); }));
  co_return http::json_response(200, shape(*reply));
}

json::value part(const sandbox::Execution& answered, std::string_view name, json::value missing) {
  const auto* value = answered.end()->reply.if_contains(name);
  return value != nullptr && value->kind() == missing.kind() ? *value : std::move(missing);
}

std::int64_t number_part(const sandbox::Execution& answered, std::string_view name) {
  return part(answered, name, std::int64_t{0}).as_int64();
}

Result<json::object> parse_place(const json::object& body) {
  json::object content;
  COVE_TRY(content["code"], code_field(body));
  COVE_TRY(const auto cursor, whole_field(body, "cursorPos"));
  if (cursor) content["cursor_pos"] = *cursor;
  return content;
}

Task<Answer> complete(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  co_return co_await put_question(services, exchange, "complete", parse_place(body), [](const auto& answered) {
    return json::object{{"matches", part(answered, "matches", json::array())},
                        {"cursorStart", number_part(answered, "cursor_start")},
                        {"cursorEnd", number_part(answered, "cursor_end")},
                        {"metadata", part(answered, "metadata", json::object())}};
  });
}

Result<json::object> parse_inspect(const json::object& body) {
  COVE_TRY(auto content, parse_place(body));
  COVE_TRY(const auto detail, whole_field(body, "detailLevel"));
  if (detail && *detail > 1) return fail(Errc::invalid, "detailLevel must be 0 or 1");
  if (detail) content["detail_level"] = *detail;
  return content;
}

Task<Answer> inspect(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  co_return co_await put_question(services, exchange, "inspect", parse_inspect(body), [](const auto& answered) {
    return json::object{{"found", part(answered, "found", false)},
                        {"data", part(answered, "data", json::object())},
                        {"metadata", part(answered, "metadata", json::object())}};
  });
}

Task<Answer> is_complete(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  auto content = parse_place(body);
  co_return co_await put_question(services, exchange, "is_complete", std::move(content), [](const auto& answered) {
    json::object object{{"status", part(answered, "status", json::string("unknown"))}};
    if (object["status"].as_string() == "incomplete") object["indent"] = part(answered, "indent", json::string());
    return object;
  });
}

Result<json::object> parse_history(const json::object& body) {
  json::object content;
  COVE_TRY(const auto access, text_field(body, "access"));
  const auto kind = access.value_or("tail");
  if (kind != "tail" && kind != "range" && kind != "search")
    return fail(Errc::invalid, "access must be \"tail\", \"range\" or \"search\"");
  content["hist_access_type"] = kind;
  COVE_TRY(const auto pattern, text_field(body, "pattern"));
  if (pattern) content["pattern"] = *pattern;
  for (const std::string_view name : {"n", "start", "stop"}) {
    COVE_TRY(const auto number, whole_field(body, name));
    if (number) content[name] = *number;
  }
  for (const std::string_view name : {"raw", "output", "unique"}) {
    COVE_TRY(const auto flag, bool_field(body, name));
    if (flag) content[name] = *flag;
  }
  return content;
}

json::object shape_history(const sandbox::Execution& answered) {
  return {{"history", part(answered, "history", json::array())}};
}

Task<Answer> search_history(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  co_return co_await put_question(services, exchange, "history", parse_history(body), shape_history);
}

Task<Answer> get_history(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto count, number_query(exchange.request(), "n"));
  json::object content{{"hist_access_type", "tail"}, {"n", std::min<std::uint64_t>(count.value_or(10), 1'000'000)}};
  co_return co_await put_question(services, exchange, "history", std::move(content), shape_history);
}

Result<json::object> parse_variables(const http::Request& request) {
  COVE_TRY(const auto most, number_query(request, "max"));
  COVE_TRY(const auto preview, number_query(request, "previewBytes"));
  if (most && (*most < 1 || *most > kMaxVariables))
    return fail(Errc::invalid, fmt::format("max must be between 1 and {}", kMaxVariables));
  if (preview && *preview > kMaxPreview)
    return fail(Errc::invalid, fmt::format("previewBytes must be at most {}", kMaxPreview));
  json::object content;
  if (most) content["max"] = *most;
  if (preview) content["preview_bytes"] = *preview;
  return content;
}

Task<Answer> get_variables(Services& services, http::Exchange& exchange) {
  auto content = parse_variables(exchange.request());
  co_return co_await put_question(services, exchange, "variables", std::move(content), [](const auto& answered) {
    json::array list;
    const auto variables = part(answered, "variables", json::array());
    for (const auto& one : variables.as_array()) {
      if (!one.is_object()) continue;
      json::object variable;
      for (const auto& [name, value] : one.as_object())
        variable[name == "size_bytes" ? json::string_view("sizeBytes") : json::string_view(name)] = value;
      list.push_back(std::move(variable));
    }
    return json::object{{"variables", std::move(list)}};
  });
}

// --- comms

struct CommWord {
  std::string op;
  json::object content;
};

Result<CommWord> parse_comm(const json::object& body) {
  COVE_TRY(const auto type, text_field(body, "type"));
  if (!type || (*type != "open" && *type != "msg" && *type != "close"))
    return fail(Errc::invalid, "type must be \"open\", \"msg\" or \"close\"");
  COVE_TRY(auto id, text_field(body, "commId"));
  if (!id && *type == "open") id = random_name("");
  if (!id || id->empty() || id->size() > 255) return fail(Errc::invalid, "commId must be 1 to 255 bytes");
  CommWord word{.op = "comm_" + *type, .content = {{"comm_id", *id}}};
  if (*type == "open") {
    COVE_TRY(const auto target, text_field(body, "targetName"));
    if (!target || target->empty()) return fail(Errc::invalid, "targetName must be a string that is not empty");
    word.content["target_name"] = *target;
  }
  COVE_TRY(word.content["data"], object_field(body, "data"));
  COVE_TRY(word.content["metadata"], object_field(body, "metadata"));
  return word;
}

Task<Answer> speak_comm(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  // The kernel is looked up first: a caller that must not see it gets not_found, whatever the body is.
  COVE_CO_CHECK(co_await find_kernel(services, exchange.request(), Need::to_speak));
  COVE_CO_TRY(auto word, parse_comm(body));
  co_return co_await put_question(services, exchange, std::move(word.op), std::move(word.content),
                                  [](const auto& answered) {
                                    json::array events;
                                    for (const auto& event : answered.events()) {
                                      if (event.type != "queued" && event.type != "started" && event.type != "end")
                                        events.push_back(to_json(answered, event));
                                    }
                                    return json::object{{"events", std::move(events)}};
                                  });
}

Task<Answer> list_comms(Services& services, http::Exchange& exchange) {
  co_return co_await put_question(services, exchange, "comm_info", json::object(), [](const auto& answered) {
    json::array list;
    const auto comms = part(answered, "comms", json::object());
    for (const auto& [id, said] : comms.as_object()) {
      const auto* target = said.is_object() ? said.as_object().if_contains("target_name") : nullptr;
      list.push_back(json::object{{"commId", id}, {"targetName", target == nullptr ? json::value("") : *target}});
    }
    return json::object{{"comms", std::move(list)}};
  });
}

constexpr auto kKernelQuestionRoutes = std::to_array<Route>({
    {verb::get, "/v1/sandboxes/{id}/kernels/{kid}/variables", answered<get_variables>},
    {verb::post, "/v1/sandboxes/{id}/kernels/{kid}/complete", answered<complete>},
    {verb::post, "/v1/sandboxes/{id}/kernels/{kid}/inspect", answered<inspect>},
    {verb::post, "/v1/sandboxes/{id}/kernels/{kid}/is_complete", answered<is_complete>},
    {verb::get, "/v1/sandboxes/{id}/kernels/{kid}/history", answered<get_history>},
    {verb::post, "/v1/sandboxes/{id}/kernels/{kid}/history", answered<search_history>},
    {verb::get, "/v1/sandboxes/{id}/kernels/{kid}/comms", answered<list_comms>},
    {verb::post, "/v1/sandboxes/{id}/kernels/{kid}/comms", answered<speak_comm>},
});

}  // namespace

Routes kernel_question_routes() {
  return kKernelQuestionRoutes;
}

}  // namespace cove::doors::sandboxes
