#include "base/text.hpp"
#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/wishes.hpp"
#include "sandbox/lease.hpp"
#include "sandbox/name.hpp"
#include "sandbox/shown_output.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

struct ExecRequest {
  sandbox::ProcessRequest process;
  std::string input;
};

Result<ExecRequest> parse_exec(const json::object& body, const config::ExecLimits& limits) {
  ExecRequest request;
  COVE_TRY(request.process.argv, command_field(body));
  COVE_TRY(const auto workdir, text_field(body, "workdir"));
  if (workdir && !workdir->empty()) request.process.directory = *workdir;
  COVE_TRY(request.process.variables, environment_field(body, "env"));
  COVE_TRY(request.process.timeout, timeout_field(body, limits));
  COVE_TRY(const auto input, text_field(body, "stdin"));
  COVE_TRY(const auto encoded, text_field(body, "stdinBase64"));
  if (input && encoded) return fail(Errc::invalid, "stdin and stdinBase64 cannot both be given");
  if (input) request.input = *input;
  if (encoded) {
    auto bytes = from_base64(*encoded);
    if (!bytes) return fail(Errc::invalid, "stdinBase64 is not base64");
    request.input = std::move(*bytes);
  }
  if (input || encoded) request.process.input = sandbox::InputMode::open;
  request.process.output_limit = limits.output_limit_bytes;
  return request;
}

json::object result_of(const sandbox::Process& process, const Services& services) {
  const auto& end = *process.end();
  const auto limit = process.request().output_limit;
  auto out = sandbox::shown_output(process, sandbox::Event::Kind::out);
  auto err = sandbox::with_last_words(process, sandbox::shown_output(process, sandbox::Event::Kind::err));
  json::object object{{"exitCode", end.exit_status},
                      {"stdout", std::move(out)},
                      {"stderr", std::move(err)},
                      {"durationMs", end.wall.count()}};
  if (end.out_bytes > limit) object["stdoutTruncated"] = true;
  if (end.err_bytes > limit) object["stderrTruncated"] = true;
  object["reason"] = name_of(end.reason);
  if (end.signal != 0) object["signal"] = sandbox::signal_name(end.signal);
  object["cpuMs"] = end.cpu.count();
  object["processId"] = sandbox::process_id(process.number());
  if (auto missing = degraded(services.registry.enforcement()); !missing.empty())
    object["degraded"] = std::move(missing);
  return object;
}

Task<> exec(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  const auto found = co_await find_sandbox(services, exchange.request());
  if (!found) co_return co_await refuse(exchange, found.error());
  const auto config = services.config();
  auto request = parse_exec(*body, exec_limits_in(**found, services));
  if (!request) co_return co_await refuse(exchange, request.error());

  const bool streaming = wants_event_stream(exchange.request());
  if (streaming) {
    request->process.output_limit = UINT64_MAX / 4;
  } else {
    request->process.whole = true;
    request->process.history = 2 * config->exec.output_limit_bytes + (1U << 20);
  }
  const sandbox::Sandbox::Activity activity(*found);
  const auto quotas = services.quotas(exchange.request().principal);
  const sandbox::Admission::Share share{.at_once = quotas.concurrent_executions,
                                        .per_minute = quotas.executions_per_minute};
  const auto ticket = co_await services.admission.enter(exchange.request().principal.tenant, share,
                                                        [&exchange] { return exchange.client_gone(); });
  if (!ticket) co_return co_await refuse(exchange, ticket.error());
  if (exchange.client_gone()) co_return;

  request->process.abandoned = [&exchange] { return exchange.client_gone(); };
  auto started = co_await (*found)->start(std::move(request->process));
  if (!started) co_return co_await refuse(exchange, started.error());
  const auto process = *started;
  const sandbox::Attended attended(*found, process);
  if (process->request().input == sandbox::InputMode::open)
    services.registry.tasks().spawn("feed a command", sandbox::feed(process, std::move(request->input)));
  if (streaming)
    co_await stream_events(services, exchange, process, 1);
  else
    co_await answer_when_done(
        exchange, process->changed(), [&process] { return process->end().has_value(); },
        [&process, &services] { return result_of(*process, services); });
}

}  // namespace

void add_exec_routes(http::Router& router, Services* services) {
  auto* s = services;
  router.add(http::verb::post, "/v1/sandboxes/{id}/exec", [s](auto& exchange) { return exec(*s, exchange); });
}

}  // namespace cove::doors::sandboxes
