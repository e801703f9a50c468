#include <array>

#include "base/text.hpp"
#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/notes.hpp"
#include "doors/sandboxes/requested_settings.hpp"
#include "run/run.hpp"
#include "sandbox/name.hpp"
#include "sandbox/shown_output.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr auto kExecFields =
    std::to_array<std::string_view>({"cmd", "workdir", "env", "timeoutSeconds", "stdin", "stdinBase64"});

Result<run::Spec> parse_exec(const json::object& body, const config::ExecLimits& limits) {
  run::Spec spec;
  auto& process = spec.process;
  COVE_TRY(auto argv, command_field(body));
  spec.code = run::Command{.argv = std::move(argv)};
  COVE_TRY(const auto workdir, text_field(body, "workdir"));
  if (workdir && !workdir->empty()) process.directory = *workdir;
  COVE_TRY(process.variables, environment_field(body, "env"));
  COVE_TRY(process.timeout, timeout_field(body, limits));
  COVE_TRY(spec.input, text_field(body, "stdin"));
  COVE_TRY(const auto encoded, text_field(body, "stdinBase64"));
  if (spec.input && encoded) return fail(Errc::invalid, "stdin and stdinBase64 cannot both be given");
  if (encoded) {
    spec.input = from_base64(*encoded, Padding::optional);
    if (!spec.input) return fail(Errc::invalid, "stdinBase64 is not base64");
  }
  process.output_limit = limits.output_limit_bytes;
  process.kept = wire::Kept::both_ends;
  return spec;
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
  if (end.signal != 0) object["signal"] = guest::signal_name(end.signal);
  object["cpuMs"] = end.cpu.count();
  add_limits_met(object, end);
  object["processId"] = sandbox::process_id(process.number());
  if (auto missing = degraded(services.registry.enforcement()); !missing.empty())
    object["degraded"] = std::move(missing);
  return object;
}

Task<Answer> exec(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange, kExecFields));
  const auto config = services.config();
  COVE_CO_TRY(auto spec, parse_exec(body, exec_limits_in(*found, services)));

  const bool streaming = wants_event_stream(exchange.request());
  if (streaming) {
    spec.process.output_limit = UINT64_MAX / 4;
  } else {
    spec.process.whole = true;
    spec.process.history = 2 * config->exec.output_limit_bytes + (1U << 20);
  }
  const sandbox::Sandbox::Activity activity(found);  // also while it waits for its ticket
  COVE_CO_TRY(auto ticket, co_await run::admit(services, caller_of(exchange)));
  if (exchange.client_gone()) co_return std::nullopt;
  run::Workplace workplace(std::move(ticket), found);
  COVE_CO_TRY(const auto run, co_await run::Run::begin(caller_of(exchange), std::move(workplace), std::move(spec)));
  const auto& process = run.process();
  if (streaming)
    co_await stream_events(exchange, process, 1);
  else
    co_await answer_when_done(
        exchange, process->changed(), [&process] { return process->end().has_value(); },
        [&process, &services] { return result_of(*process, services); });
  co_return std::nullopt;
}

constexpr auto kExecRoutes = std::to_array<Route>({
    {verb::post, "/v1/sandboxes/{id}/exec", answered<exec>},
});

}  // namespace

Routes exec_routes() {
  return kExecRoutes;
}

}  // namespace cove::doors::sandboxes
