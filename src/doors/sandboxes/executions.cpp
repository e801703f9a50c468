#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"
#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/kernel_answers.hpp"
#include "doors/sandboxes/notes.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kExecutionFields = std::to_array<std::string_view>(
    {"code", "language", "args", "env", "stdin", "timeoutSeconds", "event", "callback", "kernel"});
constexpr std::size_t kMaxCode = 1U << 20;
constexpr std::size_t kMaxSecret = 1024;
constexpr std::uint64_t kMaxListed = 1000;
constexpr std::uint64_t kMaxWait = 300;  // seconds
constexpr auto kStatuses =
    std::to_array<std::string_view>({"pending", "running", "completed", "failed", "timeout", "crashed", "cancelled"});

Result<std::vector<std::string>> arguments_field(const json::object& body) {
  std::vector<std::string> arguments;
  const auto* value = body.if_contains("args");
  if (value == nullptr || value->is_null()) return arguments;
  if (!value->is_array()) return fail(Errc::invalid, "args must be an array of strings");
  for (const auto& word : value->as_array()) {
    if (!word.is_string()) return fail(Errc::invalid, "args must be an array of strings");
    if (word.as_string().find('\0') != json::string::npos) return fail(Errc::invalid, "args may not contain NUL");
    arguments.emplace_back(word.as_string());
  }
  return arguments;
}

Result<> parse_callback(const json::object& body, const jobs::Callbacks& callbacks, jobs::JobRequest& request) {
  const auto* value = body.if_contains("callback");
  if (value == nullptr || value->is_null()) return {};
  if (!value->is_object()) return fail(Errc::invalid, "callback must be an object of url and secret");
  const auto& callback = value->as_object();
  COVE_TRY(const auto url, text_field(callback, "url"));
  if (!url) return fail(Errc::invalid, "callback.url must be a string");
  if (const auto good = callbacks.check(*url); !good)
    return fail(Errc::invalid, fmt::format("callback.url: {}", good.error().message));
  COVE_TRY(const auto secret, text_field(callback, "secret"));
  if (secret && (secret->empty() || secret->size() > kMaxSecret))
    return fail(Errc::invalid, fmt::format("callback.secret must have 1 to {} bytes", kMaxSecret));
  request.callback_url = *url;
  request.callback_secret = secret.value_or("");
  return {};
}

// Parses everything but the kernel, which has to be looked up.
Result<jobs::JobRequest> parse_job(const json::object& body, const Services& services) {
  const auto config = services.config();
  jobs::JobRequest request;
  COVE_TRY(const auto code, text_field(body, "code"));
  if (!code || code->empty()) return fail(Errc::invalid, "code must be a string that is not empty");
  if (code->size() > kMaxCode) return fail(Errc::over_limit, fmt::format("code is larger than {} bytes", kMaxCode));
  request.code = *code;
  COVE_TRY(const auto language, text_field(body, "language"));
  COVE_TRY(const auto languages, config::Languages::built_in());
  auto known = languages.by_name(language.value_or("python"));
  if (!known) return fail(Errc::invalid, fmt::format("language: {}", known.error().message));
  request.language = std::move(*known);
  COVE_TRY(request.arguments, arguments_field(body));
  COVE_TRY(request.variables, environment_field(body, "env"));
  COVE_TRY(request.input, text_field(body, "stdin"));
  COVE_TRY(request.timeout, timeout_field(body, config->exec));
  request.output_limit = config->exec.output_limit_bytes;
  if (const auto* event = body.if_contains("event"); event != nullptr) {
    if (request.language.name != "python")
      return fail(Errc::invalid, "event needs language \"python\": a handler is a Python function");
    if (!request.arguments.empty())
      return fail(Errc::invalid, "args cannot be given with event: the event is a handler's only argument");
    request.event_json = json::serialize(*event);
  }
  COVE_CHECK(parse_callback(body, services.callbacks, request));
  return request;
}

Result<> check_kernel_request(const jobs::JobRequest& request) {
  if (request.language.name != "python") return fail(Errc::invalid, "language must be \"python\" in a kernel");
  if (request.event_json) return fail(Errc::invalid, "event cannot be given with kernel");
  if (request.input) return fail(Errc::invalid, "stdin cannot be given with kernel");
  if (!request.arguments.empty()) return fail(Errc::invalid, "args cannot be given with kernel");
  if (!request.variables.empty()) return fail(Errc::invalid, "env cannot be given with kernel");
  return {};
}

Task<Answer> start_execution(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange, kExecutionFields));
  COVE_CO_TRY(auto request, parse_job(body, services));
  COVE_CO_TRY(const auto kernel, text_field(body, "kernel"));
  if (kernel) {
    COVE_CO_CHECK(check_kernel_request(request));
    COVE_CO_TRY(auto there, services.registry.kernels().find(*found, *kernel));
    request.kernel = std::move(there);
  }
  const auto share = services.authority.allowance(exchange.request().principal).executions;
  request.charge = exchange.take_charge();
  request.actor = journal::actor_of(exchange.request().principal);
  COVE_CO_TRY(const auto job, services.jobs.submit(found, std::move(request), share));
  found->touch();
  co_return http::json_response(201, services.jobs.to_json(job->row));
}

Result<std::int64_t> cursor_query(const http::Request& request) {
  const auto text = from_base64url(request.query("cursor").value_or(""));
  std::int64_t number = 0;
  if (text && text->empty()) return number;
  const bool good =
      text && std::from_chars(text->data(), text->data() + text->size(), number).ptr == text->data() + text->size();
  if (!good || number < 1) return fail(Errc::invalid, "cursor is not valid");
  return number;
}

Task<Answer> list_executions(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, request));
  COVE_CO_TRY(const auto limit, number_query(request, "limit"));
  const auto most = limit.value_or(50);
  if (most < 1 || most > kMaxListed) co_return fail(Errc::invalid, "limit must be between 1 and 1000");
  const auto status = request.query("status").value_or("");
  if (!status.empty() && std::ranges::find(kStatuses, status) == kStatuses.end())
    co_return fail(Errc::invalid,
                   "status must be pending, running, completed, failed, timeout, "
                   "crashed or cancelled");
  COVE_CO_TRY(const auto cursor, cursor_query(request));
  COVE_CO_TRY(const auto rows, services.registry.store().executions().of(found->row().id, cursor, status,
                                                                         static_cast<std::uint32_t>(most + 1)));
  json::array list;
  for (const auto& row : rows) {
    if (list.size() == most) break;
    auto object = services.jobs.to_json(row);
    // Code and output are left out of lists.
    for (const auto* name : {"stdout", "stderr", "outputs", "code", "returnValue", "artifacts"}) object.erase(name);
    list.push_back(std::move(object));
  }
  json::value next;
  if (rows.size() > most) next = to_base64url(std::to_string(rows[most - 1].seq));
  co_return http::json_response(200, json::object{{"executions", std::move(list)}, {"nextCursor", std::move(next)}});
}

struct FoundExecution {
  std::shared_ptr<sandbox::Sandbox> sandbox;
  store::ExecutionRow row;
  std::shared_ptr<jobs::Job> job;  // while it has not ended
};

Task<Result<FoundExecution>> find_execution(Services& services, const http::Request& request) {
  COVE_CO_TRY(auto found, co_await find_sandbox(services, request));
  const auto id = request.param("eid");
  auto row = services.registry.store().executions().find(found->row().id, id);
  if (!row && row.error().code == Errc::not_found)
    co_return fail(Errc::not_found, fmt::format("no such execution: {}", replace_invalid_utf8(id)));
  if (!row) co_return tl::unexpected<Error>(row.error());
  auto job = services.jobs.find(row->id);
  co_return FoundExecution{.sandbox = found, .row = std::move(*row), .job = std::move(job)};
}

Task<Answer> get_execution(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(auto named, co_await find_execution(services, exchange.request()));
  COVE_CO_TRY(const auto wait, number_query(exchange.request(), "wait"));
  if (wait && *wait > kMaxWait) co_return fail(Errc::invalid, "wait must be at most 300 seconds");
  const auto until = Clock::now() + std::chrono::seconds(wait.value_or(0));
  const sandbox::Sandbox::Activity activity(named.sandbox);
  if (named.job) {
    while (!named.job->over() && Clock::now() < until && !exchange.client_gone() && !services.draining())
      co_await named.job->changed.wait_until(std::min(until, Clock::now() + milliseconds(250)));
    named.row = named.job->row;
  }
  co_return http::json_response(200, services.jobs.to_json(named.row));
}

// For an execution that ended a while ago only the end is kept; a gap stands for the earlier events.
Task<> send_what_is_left(http::Exchange& exchange, json::object shown) {
  for (const auto* name : {"stdout", "stderr", "outputs", "code", "artifacts"}) shown.erase(name);
  shown["type"] = "end";
  auto head = event_stream();
  if (!co_await exchange.start(std::move(head))) co_return;
  auto text = http::sse_event(std::nullopt, "gap",
                              json::serialize(json::object{{"type", "gap"}, {"from", 1}, {"to", nullptr}}));
  text += http::sse_event(std::nullopt, "end", json::serialize(shown));
  if (!co_await exchange.write(text)) co_return;
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

Task<Answer> get_execution_events(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto named, co_await find_execution(services, request));
  COVE_CO_TRY(const auto from, number_query(request, "from"));
  const auto first = first_event(request, from.value_or(1));
  const sandbox::Sandbox::Activity activity(named.sandbox);
  const auto& job = named.job;
  // It may still be queued.
  while (job && !job->process && !job->execution && !job->over() && !exchange.client_gone())
    co_await job->changed.wait_until(Clock::now() + milliseconds(250));
  if (job && job->execution) {
    co_await stream_events(exchange, job->execution, first);
    co_return std::nullopt;
  }
  auto process =
      job && job->process ? job->process : named.sandbox->find_process(sandbox::ProcessKind::execution, named.row.id);
  if (process) {
    co_await stream_events(exchange, std::move(process), first);
    co_return std::nullopt;
  }
  co_await send_what_is_left(exchange, services.jobs.to_json(job ? job->row : named.row));
  co_return std::nullopt;
}

Task<Answer> cancel_execution(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_execution(services, exchange.request()));
  if (named.job && named.sandbox->state() == sandbox::State::paused)
    co_return fail(Errc::conflict, "the sandbox is paused: resume it first");
  if (named.job) jobs::Jobs::cancel(*named.job);
  while (named.job && !named.job->over() && !exchange.client_gone())
    co_await named.job->changed.wait_until(Clock::now() + milliseconds(250));
  named.sandbox->touch();
  co_return http::no_content();
}

constexpr auto kExecutionRoutes = std::to_array<Route>({
    {verb::post, "/v1/sandboxes/{id}/executions", answered<start_execution>},
    {verb::get, "/v1/sandboxes/{id}/executions", answered<list_executions>},
    {verb::get, "/v1/sandboxes/{id}/executions/{eid}", answered<get_execution>},
    {verb::get, "/v1/sandboxes/{id}/executions/{eid}/events", answered<get_execution_events>},
    {verb::delete_, "/v1/sandboxes/{id}/executions/{eid}", answered<cancel_execution>},
});

}  // namespace

Routes execution_routes() {
  return kExecutionRoutes;
}

}  // namespace cove::doors::sandboxes
