#include <array>
#include <utility>

#include "doors/execute/output.hpp"
#include "doors/execute/run.hpp"
#include "run/light.hpp"
#include "run/run.hpp"

namespace cove::doors::execute {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A running program, and what is needed at its end.
struct StartedRun {
  sandbox::Admission::Ticket slot;
  Meter::Running running;
  std::string tenant;
  std::vector<Input> inputs;
  run::Run run;
  Clock::time_point began;
};

// Everything up to the start of the program; errors until then are answers.
Task<Or<StartedRun>> begin(Services& services, http::Exchange& exchange, Operation operation) {
  using Refused = tl::unexpected<http::Response>;
  COVE_OR_TRY(const auto body, co_await read_value(services, exchange));
  COVE_OR_TRY(auto request, fastapi::valid(parse_execute(body)));
  const auto config = services.config();
  COVE_OR_TRY(const auto timeout, checked_timeout(request.timeout, *config));
  COVE_OR_TRY(auto admitted, co_await admit(services, exchange, operation));
  const auto principal = exchange.request().principal;
  COVE_OR_TRY(auto inputs,
              co_await find_inputs(services, principal.tenant, std::move(request.files), Entrypoint::reserved));

  // A module among the files may import anything.
  const bool light = config->python.light && inputs.empty() && run::is_light(request.code);
  run::Throwaway wanted{.prefix = "code-exec", .limits = limits_of(*config), .python = true, .light = light};
  auto lease = co_await run::acquire(services, principal, std::move(wanted));
  if (!lease) co_return Refused(no_capacity(services, operation, lease.error()));
  run::Workplace workplace(std::move(admitted.ticket), std::move(*lease));
  const auto staged = co_await stage(services, workplace.sandbox(), inputs, gone(exchange));
  if (!staged) co_return Refused(answer_to(staged.error(), *config));

  const auto limit = config->execute.output_limit_bytes;
  const bool streaming = operation == Operation::execute_stream;
  run::Spec spec{.code = sandbox::Program{.code = std::move(request.code),
                                          .echo = request.echo ? sandbox::Program::Echo::last_expression
                                                               : sandbox::Program::Echo::none,
                                          .cpu = std::chrono::ceil<std::chrono::seconds>(config->execute.cpu_time)},
                 .process = {.variables = environment(),
                             .timeout = timeout,
                             .output_limit = limit,
                             .history = 2 * limit + (1U << 20),
                             .delivery = streaming ? sandbox::Delivery::everything : sandbox::Delivery::newest,
                             .light = light,
                             .whole = !streaming},
                 .input = std::move(request.input)};
  auto run = co_await run::Run::begin(caller_of(exchange), std::move(workplace), std::move(spec));
  if (!run) co_return Refused(answer_to(run.error(), *config));
  const auto& end = run->process()->end();
  if (end && (end->reason == sandbox::Reason::not_started || end->reason == sandbox::Reason::pids))
    co_return refuse(500, fmt::format("The executor could not start: {}", end->note));
  co_return StartedRun{.slot = std::move(admitted.slot),
                       .running = std::move(admitted.running),
                       .tenant = principal.tenant,
                       .inputs = std::move(inputs),
                       .run = std::move(*run),
                       .began = Clock::now()};
}

struct Finished {
  Outputs outputs;
  std::string fields;  // "exit_code":…,"timed_out":…,"duration_ms":…,"files":[…]
};

// The answer for an ended run; keeps its files.
Task<Result<Finished>> finish(Services& services, StartedRun& started, std::function<bool()> abandoned) {
  const auto& end = started.run.end();
  const bool timed_out = end.reason == sandbox::Reason::timeout;
  Finished finished;
  // The files of a destroyed sandbox cannot be read.
  if (end.reason != sandbox::Reason::sandbox_gone) {
    COVE_CO_TRY(auto made, co_await collect(services, started.run.sandbox(), end, started.tenant, started.inputs,
                                            std::move(abandoned)));
    finished.outputs = std::move(made);
  }
  const int status = end.reason == sandbox::Reason::sandbox_gone || end.reason == sandbox::Reason::cancelled
                         ? 128 + 9
                         : end.exit_status;
  const auto duration = std::chrono::duration_cast<milliseconds>(Clock::now() - started.began);
  finished.fields =
      fmt::format(R"("exit_code":{},"timed_out":{},"duration_ms":{},{})", timed_out ? "null" : std::to_string(status),
                  timed_out, duration.count(), to_json(finished.outputs));
  started.running.set(timed_out ? Outcome::timed_out : Outcome::ok);
  co_return finished;
}

Task<Answer> execute(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(auto started, co_await begin(services, exchange, Operation::execute));
  if (!co_await started.run.wait()) co_return std::nullopt;
  const auto& process = *started.run.process();
  const auto limit = process.request().output_limit;
  const auto& end = started.run.end();
  auto body = fmt::format(R"({{"stdout":{},"stderr":{},)",
                          json_text(shown_output(process.text_of(sandbox::Event::Kind::out), end.out_bytes, limit)),
                          json_text(shown_output(process.text_of(sandbox::Event::Kind::err), end.err_bytes, limit)));
  auto finished = co_await finish(services, started, gone(exchange));
  if (!finished) co_return answer_to(finished.error(), *services.config());
  if (exchange.client_gone()) {
    co_await forget(services, started.tenant, std::move(finished->outputs.files));
    co_return std::nullopt;
  }
  body += finished->fields + "}";
  co_return json(200, std::move(body));
}

http::Response event_stream() {
  return {.status = 200,
          .content_type = "text/event-stream; charset=utf-8",
          .headers = {{"Cache-Control", "no-cache"}, {"Connection", "keep-alive"}, {"X-Accel-Buffering", "no"}}};
}

std::string output_event(std::string_view stream, std::string_view text) {
  if (text.empty()) return "";
  return http::sse_event(std::nullopt, "output",
                         fmt::format(R"({{"stream":"{}","data":{}}})", stream, json_text(text)));
}

Task<Answer> execute_stream(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(auto started, co_await begin(services, exchange, Operation::execute_stream));
  if (!co_await exchange.start(event_stream())) co_return std::nullopt;
  TextStream out;
  TextStream err;
  while (true) {
    const auto batch = co_await started.run.next();
    if (!batch) co_return std::nullopt;
    std::string text;
    for (const auto& event : batch->events) {
      if (event.kind == sandbox::Event::Kind::out) text += output_event("stdout", out.take(event.bytes));
      if (event.kind == sandbox::Event::Kind::err) text += output_event("stderr", err.take(event.bytes));
    }
    if (batch->over) text += output_event("stdout", out.rest()) + output_event("stderr", err.rest());
    if (!text.empty() && !co_await exchange.write(text)) co_return std::nullopt;
    if (batch->over) break;
  }
  auto finished = co_await finish(services, started, gone(exchange));
  if (finished && exchange.client_gone()) {
    co_await forget(services, started.tenant, std::move(finished->outputs.files));
    co_return std::nullopt;
  }
  const auto last = finished ? http::sse_event(std::nullopt, "result", "{" + finished->fields + "}")
                             : http::sse_event(std::nullopt, "error",
                                               fmt::format(R"({{"message":{}}})", json_text(finished.error().message)));
  if (co_await exchange.write(last)) [[maybe_unused]]
    const auto done = co_await exchange.finish();
  co_return std::nullopt;
}

constexpr auto kExecuteRoutes = std::to_array<Route>({
    {verb::post, "/v1/execute", answered<execute>, kStrict},
    {verb::post, "/v1/execute/stream", answered<execute_stream>, kStrict},
});

}  // namespace

Routes execute_routes() {
  return kExecuteRoutes;
}

}  // namespace cove::doors::execute
