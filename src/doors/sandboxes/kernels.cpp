#include <cmath>

#include "base/random.hpp"
#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/kernel_answers.hpp"
#include "doors/sandboxes/wishes.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;
using sandbox::Kernel;
using std::chrono::milliseconds;

constexpr double kMostWhole = 9'007'199'254'740'991;  // what every JSON parser counts exactly
constexpr std::uint64_t kMostVariables = 10'000;
constexpr std::uint64_t kMostPreview = 4096;

// Names another tenant's and one that is not there alike.
struct Named {
  std::shared_ptr<sandbox::Sandbox> sandbox;
  std::shared_ptr<Kernel> kernel;
};

enum class Need { to_know, to_speak };

Task<Result<Named>> find_kernel(Services& services, const http::Request& request, Need need) {
  auto found = co_await find_sandbox(services, request);
  if (!found) co_return tl::unexpected<Error>(found.error());
  auto kernel = services.registry.kernels().find(**found, request.param("kid"));
  if (!kernel) co_return tl::unexpected<Error>(kernel.error());
  if (need == Need::to_speak && (*found)->state() == sandbox::State::paused)
    co_return fail(Errc::conflict, "the sandbox is paused: resume it first");
  co_return Named{.sandbox = *found, .kernel = std::move(*kernel)};
}

Task<> answer(http::Exchange& exchange, unsigned status, json::object object) {
  auto response = http::json_response(status, object);
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

Task<> answer_nothing(http::Exchange& exchange) {
  http::Response done{.status = 204, .content_type = ""};
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(done));
}

Result<std::optional<std::int64_t>> whole_field(const json::object& object, std::string_view name, double least = 0) {
  COVE_TRY(const auto number, number_field(object, name));
  if (!number) return std::optional<std::int64_t>();
  if (*number < least || *number > kMostWhole || *number != std::floor(*number))
    return fail(Errc::invalid, fmt::format("{} must be a whole number of at least {}", name, least));
  return std::optional(static_cast<std::int64_t>(*number));
}

Result<json::object> object_field(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return json::object();
  if (!value->is_object()) return fail(Errc::invalid, fmt::format("{} must be an object", name));
  return value->as_object();
}

Result<std::string> code_field(const json::object& object) {
  COVE_TRY(const auto code, text_field(object, "code"));
  if (!code) return fail(Errc::invalid, "code must be a string");
  return *code;
}

// --- their life

Result<sandbox::KernelLanguage> language_field(const json::object& body) {
  COVE_TRY(const auto name, text_field(body, "language"));
  const auto language = sandbox::find_kernel_language(name.value_or("python"));
  if (!language) return fail(Errc::invalid, "language must be \"python\" or \"javascript\"");
  return *language;
}

Task<> create_kernel(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  const auto found = co_await find_sandbox(services, exchange.request());
  if (!found) co_return co_await refuse(exchange, found.error());
  const auto language = language_field(*body);
  if (!language) co_return co_await refuse(exchange, language.error());
  auto variables = environment_field(*body, "env");
  if (!variables) co_return co_await refuse(exchange, variables.error());
  const sandbox::Sandbox::Activity activity(*found);
  auto& kernels = services.registry.kernels();
  sandbox::KernelOptions options{.language = *language, .variables = std::move(*variables)};
  const auto kernel = co_await kernels.start(*found, std::move(options));
  if (!kernel) co_return co_await refuse(exchange, kernel.error());
  // Nobody has heard its name.
  if (exchange.client_gone()) co_return co_await kernels.remove(*found, *kernel);
  co_await answer(exchange, 201, to_json(**kernel));
}

Task<> list_kernels(Services& services, http::Exchange& exchange) {
  const auto found = co_await find_sandbox(services, exchange.request());
  if (!found) co_return co_await refuse(exchange, found.error());
  json::array list;
  for (const auto& kernel : services.registry.kernels().of(**found)) list.push_back(to_json(*kernel));
  co_await answer(exchange, 200, {{"kernels", std::move(list)}});
}

Task<> get_kernel(Services& services, http::Exchange& exchange) {
  const auto named = co_await find_kernel(services, exchange.request(), Need::to_know);
  if (!named) co_return co_await refuse(exchange, named.error());
  co_await answer(exchange, 200, to_json(*named->kernel));
}

Task<> delete_kernel(Services& services, http::Exchange& exchange) {
  const auto named = co_await find_kernel(services, exchange.request(), Need::to_speak);
  if (!named) co_return co_await refuse(exchange, named.error());
  co_await services.registry.kernels().remove(named->sandbox, named->kernel);
  named->sandbox->touch();
  co_await answer_nothing(exchange);
}

Task<> interrupt_kernel(Services& services, http::Exchange& exchange) {
  const auto named = co_await find_kernel(services, exchange.request(), Need::to_speak);
  if (!named) co_return co_await refuse(exchange, named.error());
  if (const auto told = named->kernel->interrupt(); !told) co_return co_await refuse(exchange, told.error());
  named->sandbox->touch();
  co_await answer_nothing(exchange);
}

Task<> restart_kernel(Services& services, http::Exchange& exchange) {
  const auto named = co_await find_kernel(services, exchange.request(), Need::to_speak);
  if (!named) co_return co_await refuse(exchange, named.error());
  const sandbox::Sandbox::Activity activity(named->sandbox);
  if (const auto done = co_await named->kernel->restart(); !done) co_return co_await refuse(exchange, done.error());
  co_await answer(exchange, 200, to_json(*named->kernel));
}

// --- executions

Result<sandbox::ExecuteRequest> parse_execute(const json::object& body, const config::ExecLimits& limits) {
  sandbox::ExecuteRequest request;
  COVE_TRY(request.code, code_field(body));
  COVE_TRY(request.timeout, timeout_field(body, limits));
  const auto flag = [&body](std::string_view name, bool& value) -> Result<> {
    COVE_TRY(const auto given, bool_field(body, name));
    if (given) value = *given;
    return {};
  };
  COVE_CHECK(flag("silent", request.silent));
  request.store_history = !request.silent;
  COVE_CHECK(flag("storeHistory", request.store_history));
  COVE_CHECK(flag("allowStdin", request.allow_stdin));
  COVE_CHECK(flag("colour", request.colour));
  COVE_TRY(request.user_expressions, object_field(body, "userExpressions"));
  for (const auto& [name, expression] : request.user_expressions) {
    if (!expression.is_string())
      return fail(Errc::invalid, fmt::format("userExpressions.{} must be a string", std::string_view(name)));
  }
  COVE_TRY(const auto output, whole_field(body, "outputLimit"));
  request.limits.output_bytes = limits.output_limit_bytes;
  if (output) request.limits.output_bytes = std::min(limits.output_limit_bytes, static_cast<std::uint64_t>(*output));
  return request;
}

// Ends what the client no longer waits for, on every way out.
class Attended {
 public:
  Attended(std::shared_ptr<Kernel> kernel, std::shared_ptr<sandbox::Execution> execution)
      : kernel_(std::move(kernel)), execution_(std::move(execution)) {}
  Attended(const Attended&) = delete;
  Attended& operator=(const Attended&) = delete;
  ~Attended() { kernel_->cancel(execution_, sandbox::Reason::cancelled); }

 private:
  std::shared_ptr<Kernel> kernel_;
  std::shared_ptr<sandbox::Execution> execution_;
};

// One that nobody need wait for counts as long as it lasts, and keeps its sandbox.
Task<> attend(sandbox::Sandbox::Activity, sandbox::Admission::Ticket, std::shared_ptr<sandbox::Execution> execution) {
  while (!execution->end()) co_await execution->changed().wait();
}

Task<> execute(Services& services, http::Exchange& exchange) {
  auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  const auto named = co_await find_kernel(services, exchange.request(), Need::to_speak);
  if (!named) co_return co_await refuse(exchange, named.error());
  auto request = parse_execute(*body, exec_limits_in(*named->sandbox, services));
  if (!request) co_return co_await refuse(exchange, request.error());
  body->clear();  // not needed any more, and the wait may be long
  const auto detached = flag_query(exchange.request(), "detach");
  if (!detached) co_return co_await refuse(exchange, detached.error());

  sandbox::Sandbox::Activity activity(named->sandbox);
  const auto quotas = services.quotas(exchange.request().principal);
  const sandbox::Admission::Share share{.at_once = quotas.concurrent_executions,
                                        .per_minute = quotas.executions_per_minute};
  auto ticket = co_await services.admission.enter(exchange.request().principal.tenant, share,
                                                  [&exchange] { return exchange.client_gone(); });
  if (!ticket) co_return co_await refuse(exchange, ticket.error());
  if (exchange.client_gone()) co_return;

  const auto started = named->kernel->execute(std::move(*request));
  if (!started) co_return co_await refuse(exchange, started.error());
  const auto execution = *started;
  const bool streaming = wants_event_stream(exchange.request());
  if (*detached) {
    services.registry.tasks().spawn("attend an execution", attend(std::move(activity), std::move(*ticket), execution));
    if (streaming) co_return co_await stream_events(services, exchange, execution, 1);
    co_return co_await answer(exchange, 202, {{"executionId", execution_id(*execution)}});
  }
  const Attended attended(named->kernel, execution);
  if (streaming) co_return co_await stream_events(services, exchange, execution, 1);
  co_await answer_when_done(
      exchange, execution->changed(), [&execution] { return execution->end().has_value(); },
      [&execution] { return result_of(*execution); });
}

struct NamedExecution : Named {
  std::shared_ptr<sandbox::Execution> execution;
};

Task<Result<NamedExecution>> find_execution(Services& services, const http::Request& request) {
  auto named = co_await find_kernel(services, request, Need::to_know);
  if (!named) co_return tl::unexpected<Error>(named.error());
  const auto number = execution_number(request.param("eid"));
  if (!number) co_return tl::unexpected<Error>(number.error());
  auto execution = named->kernel->find(*number);
  if (!execution) co_return fail(Errc::not_found, fmt::format("no such execution: {}", request.param("eid")));
  NamedExecution found{std::move(*named), std::move(execution)};
  co_return found;
}

Task<> get_execution(Services& services, http::Exchange& exchange) {
  const auto named = co_await find_execution(services, exchange.request());
  if (!named) co_return co_await refuse(exchange, named.error());
  named->sandbox->touch();
  co_await answer(exchange, 200, to_json(*named->execution));
}

Task<> get_execution_events(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto named = co_await find_execution(services, request);
  if (!named) co_return co_await refuse(exchange, named.error());
  const auto from = number_query(request, "from");
  if (!from) co_return co_await refuse(exchange, from.error());
  const auto first = first_event(request, from->value_or(1));
  const sandbox::Sandbox::Activity activity(named->sandbox);
  co_await stream_events(services, exchange, named->execution, first);
}

Task<> cancel_execution(Services& services, http::Exchange& exchange) {
  const auto named = co_await find_execution(services, exchange.request());
  if (!named) co_return co_await refuse(exchange, named.error());
  if (named->sandbox->state() == sandbox::State::paused && !named->execution->end())
    co_return co_await refuse(exchange, {.code = Errc::conflict, .message = "the sandbox is paused: resume it first"});
  named->kernel->cancel(named->execution, sandbox::Reason::cancelled);
  while (!named->execution->end() && !exchange.client_gone())
    co_await named->execution->changed().wait_until(Clock::now() + milliseconds(250));
  named->sandbox->touch();
  co_await answer_nothing(exchange);
}

Task<> reply_input(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  const auto named = co_await find_kernel(services, exchange.request(), Need::to_speak);
  if (!named) co_return co_await refuse(exchange, named.error());
  const auto value = text_field(*body, "value");
  if (!value) co_return co_await refuse(exchange, value.error());
  const auto eof = bool_field(*body, "eof");
  if (!eof) co_return co_await refuse(exchange, eof.error());
  if (value->has_value() == eof->value_or(false))
    co_return co_await refuse(exchange, {.code = Errc::invalid, .message = "value must be a string, or eof true"});
  if (const auto sent = named->kernel->reply_input(*value); !sent) co_return co_await refuse(exchange, sent.error());
  named->sandbox->touch();
  co_await answer_nothing(exchange);
}

// --- questions

// Puts one, and gives the answer that `shape` makes of it.
using Shape = json::object (*)(const sandbox::Execution& answered);

Task<> put_question(Services& services, http::Exchange& exchange, std::string op, Result<json::object> content,
                    Shape shape) {
  const auto named = co_await find_kernel(services, exchange.request(), Need::to_speak);
  if (!named) co_return co_await refuse(exchange, named.error());
  if (!content) co_return co_await refuse(exchange, content.error());
  const sandbox::Sandbox::Activity activity(named->sandbox);
  const auto answered =
      co_await named->kernel->ask(std::move(op), std::move(*content), [&exchange] { return exchange.client_gone(); });
  if (!answered) co_return co_await refuse(exchange, answered.error());
  co_await answer(exchange, 200, shape(**answered));
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

Task<> complete(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  co_await put_question(services, exchange, "complete", parse_place(*body), [](const auto& answered) {
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

Task<> inspect(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  co_await put_question(services, exchange, "inspect", parse_inspect(*body), [](const auto& answered) {
    return json::object{{"found", part(answered, "found", false)},
                        {"data", part(answered, "data", json::object())},
                        {"metadata", part(answered, "metadata", json::object())}};
  });
}

Task<> is_complete(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  auto content = parse_place(*body);
  co_await put_question(services, exchange, "is_complete", std::move(content), [](const auto& answered) {
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

Task<> search_history(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  co_await put_question(services, exchange, "history", parse_history(*body), shape_history);
}

Task<> get_history(Services& services, http::Exchange& exchange) {
  const auto count = number_query(exchange.request(), "n");
  if (!count) co_return co_await refuse(exchange, count.error());
  json::object content{{"hist_access_type", "tail"}, {"n", std::min<std::uint64_t>(count->value_or(10), 1'000'000)}};
  co_await put_question(services, exchange, "history", std::move(content), shape_history);
}

Result<json::object> parse_variables(const http::Request& request) {
  COVE_TRY(const auto most, number_query(request, "max"));
  COVE_TRY(const auto preview, number_query(request, "previewBytes"));
  if (most && (*most < 1 || *most > kMostVariables))
    return fail(Errc::invalid, fmt::format("max must be between 1 and {}", kMostVariables));
  if (preview && *preview > kMostPreview)
    return fail(Errc::invalid, fmt::format("previewBytes must be at most {}", kMostPreview));
  json::object content;
  if (most) content["max"] = *most;
  if (preview) content["preview_bytes"] = *preview;
  return content;
}

Task<> get_variables(Services& services, http::Exchange& exchange) {
  auto content = parse_variables(exchange.request());
  co_await put_question(services, exchange, "variables", std::move(content), [](const auto& answered) {
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
  if (!id && *type == "open")
    id = fmt::format("{:016x}{:016x}", random_number<std::uint64_t>(), random_number<std::uint64_t>());
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

Task<> speak_comm(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  // Who may not know of it hears that it is not there, whatever was asked.
  if (const auto named = co_await find_kernel(services, exchange.request(), Need::to_speak); !named)
    co_return co_await refuse(exchange, named.error());
  auto word = parse_comm(*body);
  if (!word) co_return co_await refuse(exchange, word.error());
  co_await put_question(services, exchange, std::move(word->op), std::move(word->content), [](const auto& answered) {
    json::array events;
    for (const auto& event : answered.events()) {
      if (event.type != "queued" && event.type != "started" && event.type != "end")
        events.push_back(to_json(answered, event));
    }
    return json::object{{"events", std::move(events)}};
  });
}

Task<> list_comms(Services& services, http::Exchange& exchange) {
  co_await put_question(services, exchange, "comm_info", json::object(), [](const auto& answered) {
    json::array list;
    const auto comms = part(answered, "comms", json::object());
    for (const auto& [id, said] : comms.as_object()) {
      const auto* target = said.is_object() ? said.as_object().if_contains("target_name") : nullptr;
      list.push_back(json::object{{"commId", id}, {"targetName", target == nullptr ? json::value("") : *target}});
    }
    return json::object{{"comms", std::move(list)}};
  });
}

}  // namespace

void add_kernel_routes(http::Router& router, Services* services) {
  using http::verb;
  auto* s = services;
  const std::string all = "/v1/sandboxes/{id}/kernels";
  const std::string one = all + "/{kid}";
  const std::string execution = one + "/executions/{eid}";
  router.add(verb::post, all, [s](auto& exchange) { return create_kernel(*s, exchange); });
  router.add(verb::get, all, [s](auto& exchange) { return list_kernels(*s, exchange); });
  router.add(verb::get, one, [s](auto& exchange) { return get_kernel(*s, exchange); });
  router.add(verb::delete_, one, [s](auto& exchange) { return delete_kernel(*s, exchange); });
  router.add(verb::post, one + "/interrupt", [s](auto& exchange) { return interrupt_kernel(*s, exchange); });
  router.add(verb::post, one + "/restart", [s](auto& exchange) { return restart_kernel(*s, exchange); });
  router.add(verb::post, one + "/execute", [s](auto& exchange) { return execute(*s, exchange); });
  router.add(verb::get, execution, [s](auto& exchange) { return get_execution(*s, exchange); });
  router.add(verb::delete_, execution, [s](auto& exchange) { return cancel_execution(*s, exchange); });
  router.add(verb::get, execution + "/events", [s](auto& exchange) { return get_execution_events(*s, exchange); });
  router.add(verb::post, one + "/input", [s](auto& exchange) { return reply_input(*s, exchange); });
  router.add(verb::get, one + "/variables", [s](auto& exchange) { return get_variables(*s, exchange); });
  router.add(verb::post, one + "/complete", [s](auto& exchange) { return complete(*s, exchange); });
  router.add(verb::post, one + "/inspect", [s](auto& exchange) { return inspect(*s, exchange); });
  router.add(verb::post, one + "/is_complete", [s](auto& exchange) { return is_complete(*s, exchange); });
  router.add(verb::get, one + "/history", [s](auto& exchange) { return get_history(*s, exchange); });
  router.add(verb::post, one + "/history", [s](auto& exchange) { return search_history(*s, exchange); });
  router.add(verb::get, one + "/comms", [s](auto& exchange) { return list_comms(*s, exchange); });
  router.add(verb::post, one + "/comms", [s](auto& exchange) { return speak_comm(*s, exchange); });
}

}  // namespace cove::doors::sandboxes
