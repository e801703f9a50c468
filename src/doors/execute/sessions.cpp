#include <array>

#include "base/random_name.hpp"
#include "doors/execute/output.hpp"
#include "doors/execute/run.hpp"
#include "run/run.hpp"

namespace cove::doors::execute {
namespace {

constexpr std::string_view kPrefix = "code-session-";
// Sets the CPU limit on itself, then becomes the command.
constexpr const char* kLimited = "ulimit -t \"$1\" || exit; exec bash -c \"$2\"";

std::string session_name() {
  return random_name(kPrefix);
}

http::Response not_found(std::string_view id) {
  return detail(404, fmt::format("Session '{}' not found", id));
}

// A sandbox with such a name that another API created is not a session.
Task<std::shared_ptr<sandbox::Sandbox>> find_session(Services& services, const http::Request& request) {
  const auto& id = request.param("session_id");
  if (!id.starts_with(kPrefix)) co_return nullptr;
  const auto found = co_await services.registry.find(request.principal.tenant, id);
  if (!found || (*found)->row().renewal != "none") co_return nullptr;
  co_return *found;
}

// Its TTL is fixed: use does not renew it.
Task<Result<sandbox::Lease>> make_session(Services& services, Principal principal, std::chrono::milliseconds ttl) {
  sandbox::CreateRequest request;
  request.tenant = principal.tenant;
  request.actor = journal::actor_of(principal);
  request.name = session_name();
  request.limits = limits_of(*services.config());
  request.ttl = ttl;
  request.renewal = "none";
  std::string variables;
  for (const auto& variable : environment()) {
    const auto equals = variable.find('=');
    variables += fmt::format("{}{}:{}", variables.empty() ? "" : ",", json_text(variable.substr(0, equals)),
                             json_text(variable.substr(equals + 1)));
  }
  request.env_json = "{" + variables + "}";
  const auto quotas = services.authority.allowance(principal).sandboxes;
  COVE_CO_TRY(auto made, co_await services.registry.ensure(std::move(request), quotas, sandbox::IfThere::refuse));
  co_return sandbox::Lease(services.registry, made.sandbox);
}

Task<Answer> create(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto body, co_await read_value(services, exchange));
  COVE_OR_TRY(const auto request, fastapi::valid(parse_session(body)));
  COVE_OR_TRY(auto admitted, co_await admit(services, exchange, Operation::session_create));
  const auto principal = exchange.request().principal;
  COVE_OR_TRY(const auto inputs, co_await find_inputs(services, principal.tenant, request.files, Entrypoint::allowed));
  auto made = co_await make_session(services, principal, request.ttl);
  if (!made) co_return no_capacity(services, Operation::session_create, made.error());
  const auto staged = co_await stage(services, made->sandbox(), inputs, gone(exchange));
  if (!staged) co_return answer_to(staged.error(), *services.config());
  // The client never learned its id, so nobody could use it.
  if (exchange.client_gone()) co_return std::nullopt;
  const auto session = made->give_away();
  admitted.running.set(Outcome::ok);
  const auto expires = session->expires_unix_ms();
  co_return json(201, fmt::format(R"({{"session_id":"{}","expires_at":{}.{:03}}})", session->name(), expires / 1000,
                                  expires % 1000));
}

Task<Answer> bash(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto body, co_await read_value(services, exchange));
  COVE_OR_TRY(auto request, fastapi::valid(parse_bash(body)));
  const auto config = services.config();
  COVE_OR_TRY(const auto timeout, checked_timeout(request.timeout, *config));
  if (request.command.find('\0') != std::string::npos) co_return detail(422, "cmd may not contain NUL");
  const auto id = exchange.request().param("session_id");
  if (!co_await find_session(services, exchange.request())) co_return not_found(id);
  COVE_OR_TRY(auto admitted, co_await admit(services, exchange, Operation::session_bash));
  // It may have ended during the wait.
  const auto session = co_await find_session(services, exchange.request());
  if (!session) co_return not_found(id);

  const auto limit = config->execute.output_limit_bytes;
  const auto cpu = std::chrono::ceil<std::chrono::seconds>(config->execute.cpu_time);
  std::vector<std::string> argv{
      "/bin/bash", "-c", kLimited, "bash", std::to_string(cpu.count()), std::move(request.command)};
  run::Spec spec{
      .code = run::Command{.argv = std::move(argv)},
      .process = {.timeout = timeout, .output_limit = limit, .history = 2 * limit + (1U << 20), .whole = true}};
  run::Workplace workplace(std::move(admitted.ticket), session);
  auto run = co_await run::Run::begin(caller_of(exchange), std::move(workplace), std::move(spec));
  if (!run && run.error().code == Errc::not_found) co_return not_found(id);
  if (!run) co_return answer_to(run.error(), *config);
  if (!co_await run->wait()) co_return std::nullopt;
  const auto& process = run->process();
  const auto& end = run->end();
  if (end.reason == sandbox::Reason::sandbox_gone) co_return not_found(id);
  const bool timed_out = end.reason == sandbox::Reason::timeout;
  admitted.running.set(timed_out ? Outcome::timed_out : Outcome::ok);
  co_return json(200,
                 fmt::format(R"({{"stdout":{},"stderr":{},"exit_code":{},"timed_out":{},"duration_ms":{}}})",
                             json_text(shown_output(process->text_of(sandbox::Event::Kind::out), end.out_bytes, limit)),
                             json_text(shown_output(process->text_of(sandbox::Event::Kind::err), end.err_bytes, limit)),
                             timed_out ? "null" : std::to_string(end.exit_status), timed_out, end.wall.count()));
}

Task<Answer> remove(Services& services, http::Exchange& exchange) {
  const auto session = co_await find_session(services, exchange.request());
  if (!session) co_return not_found(exchange.request().param("session_id"));
  co_await services.registry.remove(session, "deleted", journal::actor_of(exchange.request().principal));
  co_return http::no_content();
}

constexpr auto kSessionRoutes = std::to_array<Route>({
    {verb::post, "/v1/sessions", answered<create>, kStrict},
    {verb::delete_, "/v1/sessions/{session_id}", answered<remove>, kStrict},
    {verb::post, "/v1/sessions/{session_id}/bash", answered<bash>, kStrict},
});

}  // namespace

Routes session_routes() {
  return kSessionRoutes;
}

}  // namespace cove::doors::execute
