#include <signal.h>

#include <array>
#include <cmath>

#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/notes.hpp"
#include "doors/sandboxes/process_fields.hpp"
#include "doors/sandboxes/process_socket.hpp"
#include "run/run.hpp"
#include "sandbox/name.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr auto kStartFields =
    std::to_array<std::string_view>({"cmd", "workdir", "env", "timeoutSeconds", "pty", "stdin"});
constexpr std::uint64_t kMaxEvents = 10'000;

Result<sandbox::ProcessRequest> parse_start(const json::object& body) {
  sandbox::ProcessRequest request{.kind = sandbox::ProcessKind::background};
  COVE_TRY(request.argv, command_field(body));
  COVE_TRY(const auto workdir, text_field(body, "workdir"));
  if (workdir && !workdir->empty()) request.directory = *workdir;
  COVE_TRY(request.variables, environment_field(body, "env"));
  COVE_TRY(const auto timeout, number_field(body, "timeoutSeconds"));
  if (timeout && (!(*timeout > 0) || *timeout > 604'800))
    return fail(Errc::invalid, "timeoutSeconds must be greater than 0 and at most 604800");
  if (timeout) request.timeout = milliseconds(std::max<std::int64_t>(1, std::llround(*timeout * 1000)));
  if (const auto* pty = body.if_contains("pty"); pty != nullptr && !pty->is_null()) {
    if (pty->is_object()) {
      request.terminal = true;
      COVE_TRY(request.rows, size_field(pty->as_object(), "rows", request.rows));
      COVE_TRY(request.columns, size_field(pty->as_object(), "cols", request.columns));
    } else if (pty->is_bool()) {
      request.terminal = pty->as_bool();
    } else {
      return fail(Errc::invalid, "pty must be true, false or {\"rows\", \"cols\"}");
    }
  }
  COVE_TRY(const auto input, text_field(body, "stdin"));
  if (input && *input != "none" && *input != "open") return fail(Errc::invalid, "stdin must be \"none\" or \"open\"");
  if (request.terminal || (input && *input == "open")) request.input = sandbox::InputMode::open;
  return request;
}

Task<Answer> start_process(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange, kStartFields));
  COVE_CO_TRY(auto request, parse_start(body));
  const sandbox::Sandbox::Activity activity(found);
  COVE_CO_CHECK(run::admit_background(services, exchange.request().principal));
  request.abandoned = [&exchange] { return exchange.client_gone(); };
  run::Spec spec{.code = run::Command{.argv = std::move(request.argv)},
                 .process = std::move(request),
                 .actor = journal::actor_of(exchange.request().principal)};
  COVE_CO_TRY(auto started, co_await run::start(found, std::move(spec)));
  if (started->end() && started->end()->reason == sandbox::Reason::not_started)
    co_return fail(Errc::invalid, started->end()->note);
  co_return http::json_response(201, to_json(*started));
}

struct FoundProcess {
  std::shared_ptr<sandbox::Sandbox> sandbox;
  std::shared_ptr<sandbox::Process> process;
};

Task<Result<FoundProcess>> find_process(Services& services, const http::Request& request) {
  COVE_CO_TRY(auto found, co_await find_sandbox(services, request));
  COVE_CO_TRY(const auto number, sandbox::process_number(request.param("pid")));
  auto process = found->find_process(number);
  const bool shown = process && (process->request().kind == sandbox::ProcessKind::exec ||
                                 process->request().kind == sandbox::ProcessKind::background);
  if (!shown) co_return fail(Errc::not_found, fmt::format("no such process: {}", request.param("pid")));
  co_return FoundProcess{.sandbox = found, .process = std::move(process)};
}

Task<Answer> list_processes(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  json::array list;
  for (const auto& process : found->processes()) list.push_back(to_json(*process));
  co_return http::json_response(200, json::object{{"processes", std::move(list)}});
}

Task<Answer> get_process(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_process(services, exchange.request()));
  co_return http::json_response(200, to_json(*named.process));
}

Task<Answer> delete_process(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_process(services, exchange.request()));
  if (!named.process->end() && named.sandbox->state() == sandbox::State::paused)
    co_return fail(Errc::conflict, "the sandbox is paused: resume it first");
  named.process->stop(sandbox::Reason::cancelled);
  while (!named.process->end()) co_await named.process->changed().wait();
  named.sandbox->forget(named.process);
  named.sandbox->touch();
  co_return http::no_content();
}

Task<Answer> get_events(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto named, co_await find_process(services, request));
  COVE_CO_TRY(const auto from, number_query(request, "from"));
  std::uint64_t first = from.value_or(1);
  if (wants_event_stream(request)) {
    const sandbox::Sandbox::Activity activity(named.sandbox);
    co_await stream_events(exchange, named.process, first_event(request, first));
    co_return std::nullopt;
  }
  COVE_CO_TRY(const auto limit, number_query(request, "limit"));
  const auto most = limit.value_or(1000);
  if (most < 1 || most > kMaxEvents) co_return fail(Errc::invalid, "limit must be between 1 and 10000");
  const auto& process = *named.process;
  first = std::max<std::uint64_t>(1, first);
  json::array events;
  auto next = first;
  if (first < process.first_sequence()) {
    events.push_back(json::object{{"type", "gap"}, {"from", first}, {"to", process.first_sequence() - 1}});
    next = process.first_sequence();
  }
  for (const auto& event : process.events()) {
    if (event.sequence < first) continue;
    if (events.size() >= most) break;
    events.push_back(to_json(process, event));
    next = event.sequence + 1;
  }
  named.sandbox->touch();
  co_return http::json_response(200, json::object{{"events", std::move(events)}, {"next", next}});
}

Task<Answer> write_stdin(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_process(services, exchange.request()));
  COVE_CO_TRY(const auto eof, flag_query(exchange.request(), "eof"));
  const sandbox::Sandbox::Activity activity(named.sandbox);
  std::string chunk(64U << 10, '\0');
  while (true) {
    COVE_CO_TRY(const auto size, co_await exchange.read_body_some(chunk.data(), chunk.size()));
    if (size == 0) break;
    COVE_CO_CHECK(
        co_await named.process->write_input(chunk.substr(0, size), [&exchange] { return exchange.client_gone(); }));
  }
  if (eof) {
    COVE_CO_CHECK(named.process->end_input());
  }
  co_return http::no_content();
}

Task<Answer> signal_process(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_process(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  COVE_CO_TRY(const auto number, signal_field(body));
  COVE_CO_CHECK(named.process->signal(number));
  named.sandbox->touch();
  co_return http::no_content();
}

Task<Answer> resize_process(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_process(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  COVE_CO_TRY(const auto rows, size_field(body, "rows", 24));
  COVE_CO_TRY(const auto columns, size_field(body, "cols", 80));
  if (!named.process->request().terminal) co_return fail(Errc::conflict, "the process has no terminal");
  COVE_CO_CHECK(named.process->resize(rows, columns));
  named.sandbox->touch();
  co_return http::no_content();
}

// A control message from a terminal client: JSON in a text message.
Task<Answer> attach_terminal(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto named, co_await find_process(services, exchange.request()));
  COVE_CO_TRY(const auto from, number_query(exchange.request(), "from"));
  auto accepted = co_await exchange.accept_websocket();
  if (!accepted) co_return std::nullopt;
  const sandbox::Sandbox::Activity activity(named.sandbox);
  co_await relay(services, std::move(*accepted), named.process, from.value_or(1));
  co_return std::nullopt;
}

constexpr auto kProcessRoutes = std::to_array<Route>({
    {verb::post, "/v1/sandboxes/{id}/processes", answered<start_process>},
    {verb::get, "/v1/sandboxes/{id}/processes", answered<list_processes>},
    {verb::get, "/v1/sandboxes/{id}/processes/{pid}", answered<get_process>},
    {verb::delete_, "/v1/sandboxes/{id}/processes/{pid}", answered<delete_process>},
    {verb::get, "/v1/sandboxes/{id}/processes/{pid}/events", answered<get_events>},
    {verb::post, "/v1/sandboxes/{id}/processes/{pid}/stdin", answered<write_stdin>, {.body_limit = UINT64_MAX}},
    {verb::post, "/v1/sandboxes/{id}/processes/{pid}/signal", answered<signal_process>},
    {verb::post, "/v1/sandboxes/{id}/processes/{pid}/resize", answered<resize_process>},
    {verb::get, "/v1/sandboxes/{id}/processes/{pid}/terminal", answered<attach_terminal>},
});

}  // namespace

Routes process_routes() {
  return kProcessRoutes;
}

}  // namespace cove::doors::sandboxes
