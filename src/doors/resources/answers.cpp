#include "doors/resources/answers.hpp"

#include <array>

#include "base/units.hpp"
#include "sandbox/name.hpp"

#include "doors/resources/requests.hpp"

namespace cove::doors::resources {
namespace {

constexpr std::chrono::seconds kRetryAfter{1};
constexpr std::string_view kNoSandbox =
    "No sandbox is named: send X-Cove-Sandbox: NAME, use NAME as the user of Basic credentials "
    "(http://NAME:KEY@host:port), a listener of that sandbox (POST /v1/listeners), or "
    "/v1/sandboxes/NAME/resources/ in front of this path";

// A refusal of the HTTP layer. A scope that is not the listener's reads as one that does not exist.
http::Response in_our_words(http::Response response) {
  if (response.status == 404 && response.body != "there is no such route") {
    auto out = detail(404, response.body);
    out.headers = std::move(response.headers);
    return out;
  }
  return fastapi::in_their_words(std::move(response));
}

Task<Answer> status(Services& services, http::Exchange& exchange) {
  COVE_OR_TRY(const auto work, co_await begin_work(services, exchange));
  co_return json(200, R"({"status":"ok"})");
}

constexpr auto kStatusRoutes = std::to_array<Route>({
    {verb::get, "/status", answered<status>, kScoped},
    {verb::get, "/status/", answered<status>, kScoped},
    {verb::get, "/v1/sandboxes/{id}/resources/status", answered<status>, kPlain},
    {verb::get, "/v1/sandboxes/{id}/resources/status/", answered<status>, kPlain},
});

}  // namespace

Task<Or<Work>> begin_work(Services& services, const http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto& named = request.param("id");
  const auto name = named.empty() ? request.scope : named;
  if (name.empty()) co_return refuse(400, kNoSandbox);
  if (const auto checked = sandbox::checked_name(name); !checked) co_return refuse(400, checked.error().message);
  if (services.draining())
    co_return tl::unexpected<http::Response>(later(detail(503, "The server is shutting down"), kRetryAfter));
  const auto found = co_await services.registry.find(request.principal.tenant, name);
  if (!found) co_return tl::unexpected<http::Response>(answer_to(found.error(), found.error().message));
  co_return Work{.sandbox = *found,
                 .files = sandbox::SandboxFiles(
                     *found, [&exchange] { return exchange.client_gone(); }, sandbox::Confined::to_directory,
                     journal::actor_of(request.principal)),
                 .activity = sandbox::Sandbox::Activity(*found),
                 .pass = services.gate.enter()};
}

Or<std::string> path_of(const Work& work, const http::Request& request) {
  const auto path = relative_path(request.param("relpath"));
  if (!path) return refuse(400, kEscapes);
  if (path->size() > 4096) return refuse(400, "Invalid path: longer than 4096 bytes");
  return path->empty() ? work.sandbox->row().directory : work.sandbox->row().directory + "/" + *path;
}

http::Response answer_to(const Error& error, std::string_view absent) {
  switch (error.code) {
    case Errc::invalid:
      return detail(400, error.message);
    case Errc::not_found:
      return detail(404, absent);
    case Errc::denied:
      return error.sys_errno == EXDEV ? detail(400, kEscapes) : detail(403, error.message);
    case Errc::exists:
    case Errc::conflict:
      return detail(409, error.message);
    case Errc::quota:
      return later(detail(429, error.message), error.retry_after.count() > 0 ? error.retry_after : kRetryAfter);
    case Errc::over_limit:
      if (error.sys_errno == ENOSPC || error.sys_errno == EDQUOT) return detail(507, error.message);
      return error.sys_errno == 0 ? detail(413, error.message) : later(detail(503, error.message), kRetryAfter);
    case Errc::unavailable:
      return later(detail(503, error.message), kRetryAfter);
    case Errc::unsupported:
      return detail(501, error.message);
    case Errc::io:
      break;
  }
  return detail(500, error.message);
}

Or<std::uint64_t> checked_length(const Services& services, const http::Exchange& exchange) {
  const auto most = services.config()->upload.max_body_bytes;
  if (exchange.content_length().value_or(0) > most)
    return refuse(413, fmt::format("The upload is larger than {} (upload.max_body)", format_size(most)));
  return most;
}

Task<Result<>> pass_body_on(http::Exchange& exchange, sandbox::FileInput& input, std::uint64_t limit) {
  std::string chunk(kChunk, '\0');
  std::uint64_t passed = 0;
  while (true) {
    COVE_CO_TRY(const auto size, co_await exchange.read_body_some(chunk.data(), chunk.size()));
    if (size == 0) break;
    passed += size;
    if (passed > limit)
      co_return fail(Errc::over_limit,
                     fmt::format("The upload is larger than {} (upload.max_body)", format_size(limit)));
    const auto written = co_await input.write(chunk.substr(0, size));
    if (!written) break;  // it has found fault already; finish() says which
  }
  co_return Result<>();
}

std::vector<Route> routes() {
  return http::joined<Services>(
      {kStatusRoutes, file_routes(), directory_routes(), module_routes(), mcp_routes(), tool_server_routes()});
}

void add_routes(http::Router& router, Services& services) {
  // Of another door, which has the usual words.
  router.set_dialect("/mcp/line", nullptr);
  for (const auto* path : {"/status", "/files", "/directories", "/modules", "/mcp/{}", "/reset", "/run", "/approve",
                           "/approval", "/v1/sandboxes/{}/resources"})
    router.set_dialect(path, in_our_words);
  http::add_routes(router, routes(), services, "resources");
}

}  // namespace cove::doors::resources
