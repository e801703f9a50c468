#include <cmath>
#include <cstdlib>

#include "base/random.hpp"
#include "doors/workspace/answers.hpp"
#include "doors/workspace/handler_outcome.hpp"
#include "sandbox/lease.hpp"
#include "sandbox/program.hpp"
#include "sandbox/shown_output.hpp"

namespace cove::doors::workspace {
namespace {

using sandbox::Process;
using Clock = std::chrono::steady_clock;

constexpr double kLongest = 3600;  // seconds

struct Trouble {
  unsigned status = 500;
  std::string_view code;
  std::string_view description;
  std::string_view detail;
  std::string_view solution;
};

http::Response answer_to(const Trouble& trouble) {
  constexpr auto kBody = R"({{"detail":{{"error_code":"{}","description":{},"error_detail":{},"solution":{}}}}})";
  auto response = fastapi::json(trouble.status, fmt::format(kBody, trouble.code, json_text(trouble.description),
                                                            json_text(trouble.detail), json_text(trouble.solution)));
  return trouble.status == 503 ? fastapi::later(std::move(response), std::chrono::seconds(1)) : response;
}

// Of the core, before anything ran.
http::Response answer_to(const Error& error) {
  if (error.code == Errc::quota || error.code == Errc::unavailable || error.code == Errc::over_limit) {
    return answer_to(Trouble{.status = 503,
                             .code = "Sandbox.TooManyRequestsExection",
                             .description = "No sandbox is free",
                             .detail = error.message,
                             .solution = "Please try again later"});
  }
  return answer_to(Trouble{.code = "Sandbox.InternalError",
                           .description = "The sandbox failed",
                           .detail = error.message,
                           .solution = "Please look into the log of the server"});
}

// Seconds; nullopt for what is no number.
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
  const HandlerEnd ended{.reason = end.reason, .exit_status = end.exit_status, .note = end.note};
  const auto outcome = outcome_of(ended, sandbox::last_message(process, kResultLimit));
  const auto out = sandbox::shown_output(process, sandbox::Event::Kind::out);
  auto err = sandbox::with_last_words(process, sandbox::shown_output(process, sandbox::Event::Kind::err));
  err = on_its_own_line(std::move(err), outcome.note);
  return fmt::format(
      R"({{"stdout":{},"stderr":{},"result":{},"exit_code":{},"metrics":{{"duration_ms":{:.3f},"memory_peak_mb":{:.3f},"cpu_time_ms":{},"timeout_seconds":{:g}}}}})",
      json_text(out), json_text(err), outcome.result_json, outcome.exit_code, figures.wall_ms, figures.peak_mb,
      sandbox::cpu_time(process).count(), figures.timeout_seconds);
}

Task<Result<sandbox::Lease>> make_place(Services& services, const http::Principal& principal) {
  const auto config = services.config();
  sandbox::CreateRequest request;
  request.tenant = principal.tenant;
  request.name = fmt::format("handler-{:016x}{:016x}", random_number<std::uint64_t>(), random_number<std::uint64_t>());
  request.purpose = sandbox::Purpose::throwaway;
  request.python = config->python.warm;
  request.limits = handler_limits(*config);
  auto made =
      co_await services.registry.ensure(std::move(request), quotas_of(services, principal), sandbox::IfThere::refuse);
  if (!made) co_return tl::unexpected<Error>(made.error());
  co_return sandbox::Lease(services.registry, made->sandbox);
}

Task<> call(Services& services, http::Exchange& exchange) {
  const auto began = Clock::now();
  const auto config = services.config();
  const auto body = co_await read_value(services, exchange);
  if (!body) co_return co_await send(exchange, body.error());
  auto parsed = parse_handler(*body);
  if (const auto* problems = std::get_if<Problems>(&parsed))
    co_return co_await send(exchange, fastapi::wrong(*problems));
  auto& request = std::get<HandlerRequest>(parsed);
  const auto timeout = timeout_of(request.event, *config);
  if (!timeout) {
    co_return co_await send(exchange, answer_to(Trouble{.status = 400,
                                                        .code = "Sandbox.InvalidParameter",
                                                        .description = "Invalid parameter",
                                                        .detail = "event.__timeout must be a number of seconds",
                                                        .solution = "Give a number, or leave it out"}));
  }
  if (services.draining()) {
    co_return co_await send(exchange, answer_to(Trouble{.status = 503,
                                                        .code = "Sandbox.NotInitialized",
                                                        .description = "Sandbox executor not initialized",
                                                        .detail = "The server is shutting down",
                                                        .solution = "Please try again later"}));
  }
  const auto ticket = co_await take_turn(services, exchange);
  if (!ticket) co_return co_await send(exchange, answer_to(ticket.error()));
  if (exchange.client_gone()) co_return;
  const auto lease = co_await make_place(services, exchange.request().principal);
  if (!lease) co_return co_await send(exchange, answer_to(lease.error()));
  const auto limit = config->exec.output_limit_bytes;
  sandbox::ProcessRequest process{
      .timeout = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(*timeout)),
      .output_limit = limit,
      .history = 2 * limit + kResultLimit + (1U << 20),
      .abandoned = gone(exchange),
      .whole = true};
  sandbox::HandlerCall handler{
      .code = std::move(request.code), .event_json = to_json(request.event), .context_json = to_json(request.context)};
  auto started = co_await sandbox::start_handler(lease->sandbox(), std::move(handler), std::move(process));
  if (!started) co_return co_await send(exchange, answer_to(started.error()));
  if (!co_await wait_for_end(exchange, **started)) co_return;
  const auto& end = *(*started)->end();
  if (end.reason == sandbox::Reason::timeout) {
    co_return co_await send(
        exchange, answer_to(Trouble{.code = "Sandbox.ExecTimeout",
                                    .description = "Handler execution timeout",
                                    .detail = fmt::format("Execution timed out after {:g} seconds", *timeout),
                                    .solution = "Make the handler faster, or give it more time in event.__timeout"}));
  }
  if (end.reason == sandbox::Reason::sandbox_gone || end.reason == sandbox::Reason::shutdown ||
      end.reason == sandbox::Reason::not_started) {
    co_return co_await send(
        exchange, answer_to(Trouble{.code = "Sandbox.ExecException",
                                    .description = "Handler execution exception",
                                    .detail = fmt::format("The sandbox ended: {} {}", name_of(end.reason), end.note),
                                    .solution = "Please try again"}));
  }
  const auto counted = co_await lease->sandbox()->inspect();
  const Figures figures{.wall_ms = std::chrono::duration<double, std::milli>(Clock::now() - began).count(),
                        .peak_mb = counted ? static_cast<double>(counted->memory_peak_bytes) / (1U << 20) : 0,
                        .timeout_seconds = *timeout};
  co_await send(exchange, fastapi::json(200, body_of(**started, figures)));
}

}  // namespace

jail::Limits handler_limits(const config::Config& config) {
  const auto& limits = config.workspace;
  return {.memory_bytes = limits.handler_memory_bytes,
          .disk_bytes = sandbox::most_disk_bytes(limits.handler_memory_bytes),
          .inodes = config.sandbox.inodes,
          .pids = limits.handler_processes + 2,  // init, and what watches over the handler, are ours
          .cpu_millis = limits.handler_cpu_millis};
}

void add_handler_routes(http::Router& router, Services* services) {
  auto* s = services;
  router.add(
      http::verb::post, "/workspace/se/v2/execute_code", [s](auto& exchange) { return call(*s, exchange); },
      plain_route());
}

}  // namespace cove::doors::workspace
