#include <array>

#include "doors/sandboxes/kernel_answers.hpp"
#include "doors/sandboxes/kernel_requests.hpp"
#include "doors/sandboxes/notes.hpp"
#include "doors/sandboxes/requested_settings.hpp"
#include "run/cell.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kKernelExecutionFields = std::to_array<std::string_view>(
    {"code", "timeoutSeconds", "silent", "storeHistory", "allowStdin", "colour", "userExpressions", "outputLimit"});

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

// Runs without a client. The request's share of the server's memory stays charged until the end.
Task<> run_detached(run::Cell cell, Budget::Charge /*held*/) {
  co_await cell.run_to_end();
}

Task<Answer> execute(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_kernel(services, exchange.request(), Need::to_speak));
  COVE_CO_TRY(auto body, co_await read_object(services, exchange, kKernelExecutionFields));
  COVE_CO_TRY(auto request, parse_execute(body, exec_limits_in(*named.sandbox, services)));
  body.clear();  // not needed any more, and the wait may be long
  COVE_CO_TRY(const auto detached, flag_query(exchange.request(), "detach"));

  const sandbox::Sandbox::Activity activity(named.sandbox);  // also while it waits for its ticket
  COVE_CO_TRY(auto ticket, co_await run::admit(services, caller_of(exchange)));
  if (exchange.client_gone()) co_return std::nullopt;

  run::Workplace workplace(std::move(ticket), named.sandbox);
  COVE_CO_TRY(auto cell, run::Cell::begin(caller_of(exchange), std::move(workplace), named.kernel, std::move(request)));
  const auto execution = cell.execution();
  const bool streaming = wants_event_stream(exchange.request());
  if (detached) services.tasks.spawn("run a detached execution", run_detached(std::move(cell), exchange.take_charge()));
  if (streaming) {
    co_await stream_events(exchange, execution, 1);
  } else if (detached) {
    co_return http::json_response(202, json::object{{"executionId", execution_id(*execution)}});
  } else {
    co_await answer_when_done(
        exchange, execution->changed(), [&execution] { return execution->end().has_value(); },
        [&execution] { return result_of(*execution); });
  }
  co_return std::nullopt;
}

struct NamedExecution : NamedKernel {
  std::shared_ptr<sandbox::Execution> execution;
};

Task<Result<NamedExecution>> find_execution(Services& services, const http::Request& request) {
  COVE_CO_TRY(auto named, co_await find_kernel(services, request, Need::to_know));
  COVE_CO_TRY(const auto number, execution_number(request.param("eid")));
  auto execution = named.kernel->find(number);
  if (!execution) co_return fail(Errc::not_found, fmt::format("no such execution: {}", request.param("eid")));
  NamedExecution found{std::move(named), std::move(execution)};
  co_return found;
}

Task<Answer> get_execution(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_execution(services, exchange.request()));
  named.sandbox->touch();
  co_return http::json_response(200, to_json(*named.execution));
}

Task<Answer> get_execution_events(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto named, co_await find_execution(services, request));
  COVE_CO_TRY(const auto from, number_query(request, "from"));
  const auto first = first_event(request, from.value_or(1));
  const sandbox::Sandbox::Activity activity(named.sandbox);
  co_await stream_events(exchange, named.execution, first);
  co_return std::nullopt;
}

Task<Answer> cancel_execution(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_execution(services, exchange.request()));
  if (named.sandbox->state() == sandbox::State::paused && !named.execution->end())
    co_return fail(Errc::conflict, "the sandbox is paused: resume it first");
  named.kernel->cancel(named.execution, sandbox::Reason::cancelled);
  while (!named.execution->end() && !exchange.client_gone())
    co_await named.execution->changed().wait_until(Clock::now() + milliseconds(250));
  named.sandbox->touch();
  co_return http::no_content();
}

Task<Answer> reply_input(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_kernel(services, exchange.request(), Need::to_speak));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  COVE_CO_TRY(const auto value, text_field(body, "value"));
  COVE_CO_TRY(const auto eof, bool_field(body, "eof"));
  if (value.has_value() == eof.value_or(false)) co_return fail(Errc::invalid, "value must be a string, or eof true");
  COVE_CO_CHECK(named.kernel->reply_input(value));
  named.sandbox->touch();
  co_return http::no_content();
}

constexpr auto kKernelExecutionRoutes = std::to_array<Route>({
    {verb::post, "/v1/sandboxes/{id}/kernels/{kid}/execute", answered<execute>},
    {verb::get, "/v1/sandboxes/{id}/kernels/{kid}/executions/{eid}", answered<get_execution>},
    {verb::delete_, "/v1/sandboxes/{id}/kernels/{kid}/executions/{eid}", answered<cancel_execution>},
    {verb::get, "/v1/sandboxes/{id}/kernels/{kid}/executions/{eid}/events", answered<get_execution_events>},
    {verb::post, "/v1/sandboxes/{id}/kernels/{kid}/input", answered<reply_input>},
});

}  // namespace

Routes kernel_execution_routes() {
  return kKernelExecutionRoutes;
}

}  // namespace cove::doors::sandboxes
