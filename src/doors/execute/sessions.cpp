#include "base/random.hpp"
#include "doors/execute/output.hpp"
#include "doors/execute/run.hpp"

namespace cove::doors::execute {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kLook{200};
constexpr std::string_view kPrefix = "code-session-";
// The limit is for what the command starts, not for what starts it.
constexpr const char* kLimited = "ulimit -t \"$1\" || exit; exec bash -c \"$2\"";

std::string session_name() {
  return fmt::format("{}{:016x}{:016x}", kPrefix, random_number<std::uint64_t>(), random_number<std::uint64_t>());
}

std::function<bool()> gone(const http::Exchange& exchange) {
  return [&exchange] { return exchange.client_gone(); };
}

http::Response not_found(std::string_view id) {
  return detail(404, fmt::format("Session '{}' not found", id));
}

// A sandbox that somebody made under such a name is no session.
Task<std::shared_ptr<sandbox::Sandbox>> find_session(Services& services, const http::Request& request) {
  const auto& id = request.param("session_id");
  if (!id.starts_with(kPrefix)) co_return nullptr;
  const auto found = co_await services.registry.find(request.principal.tenant, id);
  if (!found || (*found)->row().renewal != "none") co_return nullptr;
  co_return *found;
}

Task<> create(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_value(services, exchange);
  if (!body) co_return co_await send(exchange, body.error());
  auto parsed = parse_session(*body);
  if (const auto* problems = std::get_if<Problems>(&parsed)) co_return co_await send(exchange, wrong(*problems));
  const auto& request = std::get<SessionRequest>(parsed);
  auto place = co_await take_place(services, exchange, Operation::session_create);
  if (!place) co_return co_await send(exchange, std::move(place.error()));
  const auto principal = exchange.request().principal;
  const auto inputs = co_await find_inputs(services, principal.tenant, request.files, Entrypoint::allowed);
  if (!inputs) co_return co_await send(exchange, inputs.error());
  WorkplaceOptions options{.name = session_name(), .ttl = request.ttl, .purpose = sandbox::Purpose::named};
  auto allowance = co_await make_allowance(services, principal, Operation::session_create, std::move(options));
  if (!allowance) co_return co_await send(exchange, std::move(allowance.error()));
  const auto staged = co_await stage(services, allowance->sandbox(), *inputs, gone(exchange));
  if (!staged) co_return co_await send(exchange, answer_to(staged.error(), *services.config()));
  // Nobody knows its name: it would only lie there until its time is over.
  if (exchange.client_gone()) co_return;
  const auto session = allowance->give_away();
  place->running.set(Outcome::ok);
  const auto expires = session->expires_unix_ms();
  co_await send(exchange, json(201, fmt::format(R"({{"session_id":"{}","expires_at":{}.{:03}}})", session->name(),
                                                expires / 1000, expires % 1000)));
}

Task<> bash(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_value(services, exchange);
  if (!body) co_return co_await send(exchange, body.error());
  auto parsed = parse_bash(*body);
  if (const auto* problems = std::get_if<Problems>(&parsed)) co_return co_await send(exchange, wrong(*problems));
  auto& request = std::get<BashRequest>(parsed);
  const auto config = services.config();
  const auto timeout = checked_timeout(request.timeout, *config);
  if (!timeout) co_return co_await send(exchange, timeout.error());
  if (request.command.find('\0') != std::string::npos)
    co_return co_await send(exchange, detail(422, "cmd may not contain NUL"));
  const auto id = exchange.request().param("session_id");
  if (!co_await find_session(services, exchange.request())) co_return co_await send(exchange, not_found(id));
  auto place = co_await take_place(services, exchange, Operation::session_bash);
  if (!place) co_return co_await send(exchange, std::move(place.error()));
  // It may have gone while we waited.
  const auto session = co_await find_session(services, exchange.request());
  if (!session) co_return co_await send(exchange, not_found(id));

  const auto limit = config->execute.output_limit_bytes;
  const auto cpu = std::chrono::ceil<std::chrono::seconds>(config->execute.cpu_time);
  sandbox::ProcessRequest command{
      .argv = {"/bin/bash", "-c", kLimited, "bash", std::to_string(cpu.count()), std::move(request.command)},
      .timeout = *timeout,
      .output_limit = limit,
      .history = 2 * limit + (1U << 20),
      .abandoned = gone(exchange),
      .whole = true};
  auto started = co_await session->start(std::move(command));
  if (!started && started.error().code == Errc::not_found) co_return co_await send(exchange, not_found(id));
  if (!started) co_return co_await send(exchange, answer_to(started.error(), *config));
  const auto process = *started;
  const sandbox::Attended attended(session, process);
  while (!process->end()) {
    co_await process->changed().wait_until(Clock::now() + kLook);
    if (exchange.client_gone()) co_return;
  }
  const auto& end = *process->end();
  if (end.reason == sandbox::Reason::sandbox_gone) co_return co_await send(exchange, not_found(id));
  const bool timed_out = end.reason == sandbox::Reason::timeout;
  place->running.set(timed_out ? Outcome::timed_out : Outcome::ok);
  co_await send(
      exchange,
      json(200, fmt::format(R"({{"stdout":{},"stderr":{},"exit_code":{},"timed_out":{},"duration_ms":{}}})",
                            json_text(shown_output(process->text_of(sandbox::Event::Kind::out), end.out_bytes, limit)),
                            json_text(shown_output(process->text_of(sandbox::Event::Kind::err), end.err_bytes, limit)),
                            timed_out ? "null" : std::to_string(end.exit_status), timed_out, end.wall.count())));
}

Task<> remove(Services& services, http::Exchange& exchange) {
  const auto session = co_await find_session(services, exchange.request());
  if (!session) co_return co_await send(exchange, not_found(exchange.request().param("session_id")));
  co_await services.registry.remove(session, "deleted");
  http::Response done{.status = 204, .content_type = ""};
  co_await send(exchange, std::move(done));
}

}  // namespace

void add_session_routes(http::Router& router, Services* services) {
  using http::verb;
  auto* s = services;
  const auto options = strict_route();
  router.add(verb::post, "/v1/sessions", [s](auto& exchange) { return create(*s, exchange); }, options);
  router.add(verb::delete_, "/v1/sessions/{session_id}", [s](auto& exchange) { return remove(*s, exchange); }, options);
  router.add(verb::post, "/v1/sessions/{session_id}/bash", [s](auto& exchange) { return bash(*s, exchange); }, options);
}

}  // namespace cove::doors::execute
