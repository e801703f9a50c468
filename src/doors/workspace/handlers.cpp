#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "doors/workspace/answers.hpp"
#include "handler/handler_outcome.hpp"
#include "run/run.hpp"
#include "sandbox/shown_output.hpp"

namespace cove::doors::workspace {
namespace {

using sandbox::Process;
using Clock = std::chrono::steady_clock;

constexpr double kLongest = 3600;  // seconds
constexpr std::chrono::milliseconds kRetryAfter{1000};

struct Trouble {
  unsigned status = 500;
  std::string_view code;
  std::string_view description;
  std::string_view detail;
  std::string_view solution;
  std::chrono::milliseconds retry_after = kRetryAfter;  // with 503
};

http::Response answer_to(const Trouble& trouble) {
  constexpr auto kBody = R"({{"detail":{{"error_code":"{}","description":{},"error_detail":{},"solution":{}}}}})";
  auto response = fastapi::json(trouble.status, fmt::format(kBody, trouble.code, json_text(trouble.description),
                                                            json_text(trouble.detail), json_text(trouble.solution)));
  return trouble.status == 503 ? fastapi::later(std::move(response), trouble.retry_after) : response;
}

// Errors of the core, before anything ran.
http::Response answer_to(const Error& error) {
  if (error.code == Errc::quota || error.code == Errc::unavailable || error.code == Errc::over_limit) {
    return answer_to(Trouble{.status = 503,
                             .code = "Sandbox.TooManyRequestsExection",
                             .description = "No sandbox is free",
                             .detail = error.message,
                             .solution = "Please try again later",
                             .retry_after = std::max<std::chrono::milliseconds>(error.retry_after, kRetryAfter)});
  }
  return answer_to(Trouble{.code = "Sandbox.InternalError",
                           .description = "The sandbox failed",
                           .detail = error.message,
                           .solution = "Please look into the log of the server"});
}

// Seconds; nullopt if it is not a number.
std::optional<double> timeout_of(const Value& event, const config::Config& config) {
  const double usual = std::chrono::duration<double>(config.workspace.timeout).count();
  const auto* given = event.member("__timeout");
  if (given == nullptr) return usual;
  double seconds = 0;
  if (given->kind == Value::Kind::boolean) {
    seconds = given->flag ? 1 : 0;
  } else if (given->kind == Value::Kind::integer || given->kind == Value::Kind::real) {
    seconds = std::strtod(given->text.c_str(), nullptr);
    if (std::isnan(seconds)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  return seconds <= 0 ? usual : std::min(seconds, kLongest);
}

std::string on_its_own_line(std::string text, std::string_view line) {
  if (!line.empty() && !text.empty() && !text.ends_with('\n')) text += '\n';
  return text.append(line);
}

struct Figures {
  double wall_ms = 0;
  double peak_mb = 0;
  double timeout_seconds = 0;
};

std::string body_of(const Process& process, const Figures& figures) {
  const auto& end = *process.end();
  // What ended it for memory is among its last words already.
  const handler::HandlerEnd ended{
      .reason = end.reason, .exit_status = end.exit_status, .note = end.reason == sandbox::Reason::oom ? "" : end.note};
  const auto outcome = handler::outcome_of(ended, sandbox::last_message(process, handler::kResultLimit));
  const auto out = sandbox::shown_output(process, sandbox::Event::Kind::out);
  auto err = sandbox::with_last_words(process, sandbox::shown_output(process, sandbox::Event::Kind::err));
  err = on_its_own_line(std::move(err), outcome.note);
  return fmt::format(
      R"({{"stdout":{},"stderr":{},"result":{},"exit_code":{},"metrics":{{"duration_ms":{:.3f},"memory_peak_mb":{:.3f},"cpu_time_ms":{},"timeout_seconds":{:g}}}}})",
      json_text(out), json_text(err), outcome.result_json, outcome.exit_code, figures.wall_ms, figures.peak_mb,
      sandbox::cpu_time(process).count(), figures.timeout_seconds);
}

Task<Answer> call(Services& services, http::Exchange& exchange) {
  const auto began = Clock::now();
  const auto config = services.config();
  COVE_OR_TRY(const auto body, co_await read_value(services, exchange));
  COVE_OR_TRY(auto request, fastapi::valid(parse_handler(body)));
  const auto timeout = timeout_of(request.event, *config);
  if (!timeout) {
    co_return answer_to(Trouble{.status = 400,
                                .code = "Sandbox.InvalidParameter",
                                .description = "Invalid parameter",
                                .detail = "event.__timeout must be a number of seconds",
                                .solution = "Give a number, or leave it out"});
  }
  if (services.draining()) {
    co_return answer_to(Trouble{.status = 503,
                                .code = "Sandbox.NotInitialized",
                                .description = "Sandbox executor not initialized",
                                .detail = "The server is shutting down",
                                .solution = "Please try again later"});
  }
  auto ticket = co_await run::admit(services, caller_of(exchange));
  if (!ticket) co_return answer_to(ticket.error());
  if (exchange.client_gone()) co_return std::nullopt;
  run::Throwaway wanted{
      .prefix = "handler", .limits = handler_limits(*config), .python = true, .network_json = network_of(*config)};
  auto lease = co_await run::acquire(services, exchange.request().principal, std::move(wanted));
  if (!lease) co_return answer_to(lease.error());
  const auto limit = config->exec.output_limit_bytes;
  run::Spec spec{
      .code = sandbox::HandlerCall{.code = std::move(request.code),
                                   .event_json = to_json(request.event),
                                   .context_json = to_json(request.context)},
      .process = {.timeout = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(*timeout)),
                  .output_limit = limit,
                  .kept = wire::Kept::both_ends,
                  .history = 2 * limit + handler::kResultLimit + (1U << 20),
                  .whole = true}};
  run::Workplace workplace(std::move(*ticket), std::move(*lease));
  auto run = co_await run::Run::begin(caller_of(exchange), std::move(workplace), std::move(spec));
  if (!run) co_return answer_to(run.error());
  if (!co_await run->wait()) co_return std::nullopt;
  const auto& end = run->end();
  if (end.reason == sandbox::Reason::timeout) {
    co_return answer_to(Trouble{.code = "Sandbox.ExecTimeout",
                                .description = "Handler execution timeout",
                                .detail = fmt::format("Execution timed out after {:g} seconds", *timeout),
                                .solution = "Make the handler faster, or give it more time in event.__timeout"});
  }
  if (end.reason == sandbox::Reason::sandbox_gone || end.reason == sandbox::Reason::shutdown ||
      end.reason == sandbox::Reason::not_started) {
    co_return answer_to(Trouble{.code = "Sandbox.ExecException",
                                .description = "Handler execution exception",
                                .detail = fmt::format("The sandbox ended: {} {}", name_of(end.reason), end.note),
                                .solution = "Please try again"});
  }
  const auto counted = co_await run->sandbox()->inspect();
  const Figures figures{.wall_ms = std::chrono::duration<double, std::milli>(Clock::now() - began).count(),
                        .peak_mb = counted ? static_cast<double>(counted->memory_peak_bytes) / (1U << 20) : 0,
                        .timeout_seconds = *timeout};
  co_return fastapi::json(200, body_of(*run->process(), figures));
}

}  // namespace

std::string network_of(const config::Config& config) {
  return config.workspace.network ? R"("public")" : "";
}

jail::Limits handler_limits(const config::Config& config) {
  const auto& limits = config.workspace;
  return {.memory_bytes = limits.handler_memory_bytes,
          .disk_bytes = sandbox::most_disk_bytes(limits.handler_memory_bytes),
          .inodes = config.sandbox.inodes,
          .pids = limits.handler_processes + 2,  // init, and what watches over the handler, are ours
          .cpu_millis = limits.handler_cpu_millis};
}

namespace {

constexpr auto kHandlerRoutes = std::to_array<Route>({
    {verb::post, "/workspace/se/v2/execute_code", answered<call>, kPlain},
});

}  // namespace

Routes handler_routes() {
  return kHandlerRoutes;
}

}  // namespace cove::doors::workspace
