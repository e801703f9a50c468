#include "doors/workspace/answers.hpp"

#include <boost/json.hpp>

#include "base/units.hpp"
#include "sandbox/name.hpp"

namespace cove::doors::workspace {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetryAfter{1000};
constexpr std::string_view kLabels = R"({"door":"workspace"})";

http::Response error_body(unsigned status, std::string_view type, std::string_view message, std::string_view detail) {
  return fastapi::json(status, fmt::format(R"({{"detail":{{"type":"{}","message":{},"detail":{}}}}})", type,
                                           json_text(message), detail.empty() ? "null" : json_text(detail)));
}

unsigned fitting_status(Errc code) {
  switch (code) {
    case Errc::not_found:
      return 404;
    case Errc::conflict:
      return 409;
    case Errc::over_limit:
      return 413;
    default:
      return 400;
  }
}

}  // namespace

http::Response envelope(std::string_view members) {
  return fastapi::json(200, fmt::format(R"({{"result":{{{0}}},"full_result":{{{0}}},{0}}})", members));
}

http::Response mistake(const Mistake& mistake, const config::Config& config) {
  const bool reference = config.workspace.statuses == config::WorkspaceStatuses::reference;
  return error_body(reference ? 500 : fitting_status(mistake.code), "SandboxError", mistake.message, mistake.detail);
}

http::Response answer_to(const Error& error, std::string_view message, const config::Config& config) {
  switch (error.code) {
    case Errc::quota:
      return fastapi::later(error_body(429, "SandboxError", message, error.message), kRetryAfter);
    case Errc::unavailable:
      return fastapi::later(error_body(503, "SandboxError", message, error.message), kRetryAfter);
    case Errc::over_limit:
      // With an errno the host is out of a resource.
      if (error.sys_errno != 0)
        return fastapi::later(error_body(503, "SandboxError", message, error.message), kRetryAfter);
      break;
    case Errc::unsupported:
    case Errc::io:
      return error_body(500, "UnexpectedError", "An unexpected error occurred", error.message);
    default:
      break;
  }
  return mistake({.code = error.code, .message = message, .detail = "Error: " + error.message}, config);
}

Task<Or<Value>> read_value(const Services& services, http::Exchange& exchange) {
  return fastapi::read_value(exchange, services.config()->http.max_body_bytes);
}

// Files live in memory: a session gets the size of its files plus the memory of its programs.
Result<sandbox::CreateRequest> new_session(const config::Config& config, const http::Principal& principal,
                                           std::string name, const std::optional<std::string>& size) {
  const auto& limits = config.sandbox;
  const auto most = std::min(limits.max_disk_bytes, sandbox::most_disk_bytes(limits.max_memory_bytes));
  auto bytes = std::min(config.workspace.size_bytes, most);
  if (size) {
    COVE_TRY(bytes, tmpfs_size(*size, most));
    if (bytes == UINT64_MAX) bytes = most;  // no limit of its own
    if (bytes > most)
      return fail(Errc::invalid,
                  fmt::format("size {} is more than this server's limit of {}", *size, format_size(most)));
    bytes = std::max<std::uint64_t>(bytes, 64U << 10);
  }
  const auto memory = std::max(config.workspace.memory_bytes + bytes, bytes / 3 * 4 + 4);
  sandbox::CreateRequest request;
  request.tenant = principal.tenant;
  request.actor = journal::actor_of(principal);
  request.name = std::move(name);
  request.ttl = config.workspace.expiration;
  request.renewal = "none";
  request.labels_json = kLabels;
  request.network_json = network_of(config);
  request.limits = {.memory_bytes = std::min(memory, limits.max_memory_bytes),
                    .disk_bytes = bytes,
                    .inodes = limits.inodes,
                    .pids = limits.pids,
                    .cpu_millis = limits.cpu_millis};
  return request;
}

bool is_session(const sandbox::Sandbox& sandbox) {
  return sandbox.row().labels_json == kLabels;
}

Task<Or<Session>> open_session_named(Services& services, const http::Principal& principal, std::string name) {
  using Refused = tl::unexpected<http::Response>;
  const auto config = services.config();
  if (const auto checked = sandbox::checked_name(name); !checked)
    co_return Refused(answer_to(checked.error(), "Invalid session id", *config));
  if (services.draining()) {
    const Error stopping{.code = Errc::unavailable, .message = "the server is shutting down"};
    co_return Refused(answer_to(stopping, "Failed to open session", *config));
  }
  while (true) {
    const auto found = co_await services.registry.find(principal.tenant, name);
    if (found) {
      co_return Session{
          .sandbox = *found, .activity = sandbox::Sandbox::Activity(*found), .pass = services.gate.enter()};
    }
    auto request = new_session(*config, principal, name, std::nullopt);
    if (!request) co_return Refused(answer_to(request.error(), "Failed to create session", *config));
    const auto made = co_await services.registry.ensure(
        std::move(*request), services.authority.allowance(principal).sandboxes, sandbox::IfThere::refuse);
    // Another request may have created it meanwhile.
    if (!made && made.error().code != Errc::exists)
      co_return Refused(answer_to(made.error(), "Failed to create session", *config));
  }
}

Task<Or<Session>> open_session(Services& services, http::Exchange& exchange) {
  return open_session_named(services, exchange.request().principal, exchange.request().param("session_id"));
}

std::function<bool()> gone(const http::Exchange& exchange) {
  return [&exchange] { return exchange.client_gone(); };
}

run::Caller caller_of(const http::Exchange& exchange) {
  return {.principal = exchange.request().principal, .gone = gone(exchange)};
}

std::vector<Route> routes() {
  return http::joined<Services>({session_routes(), file_routes(), execute_routes(), handler_routes(), efast_routes()});
}

void add_routes(http::Router& router, Services& services) {
  router.set_dialect("/workspace/se", fastapi::in_their_words);
  http::add_routes(router, routes(), services, "workspace");
}

}  // namespace cove::doors::workspace
