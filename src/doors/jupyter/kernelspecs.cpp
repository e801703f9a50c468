#include <array>

#include "base/clock.hpp"
#include "doors/jupyter/answers.hpp"
#include "doors/jupyter/contents.hpp"
#include "doors/jupyter/specs.hpp"

namespace cove::doors::jupyter {
namespace {

namespace json = boost::json;

Task<Answer> version(Services& services, http::Exchange& exchange) {
  COVE_CO_CHECK(co_await scope_of(services, exchange.request()));
  co_return http::json_response(200, json::object{{"version", COVE_VERSION}});
}

Task<Answer> list(Services& services, http::Exchange& exchange) {
  COVE_CO_CHECK(co_await scope_of(services, exchange.request()));
  co_return http::json_response(200, specs_json());
}

Task<Answer> get(Services& services, http::Exchange& exchange) {
  COVE_CO_CHECK(co_await scope_of(services, exchange.request()));
  const auto& name = exchange.request().param("spec");
  const auto language = find_spec(name);
  if (!language) co_return fail(Errc::not_found, fmt::format("Kernel spec {} not found", name));
  co_return http::json_response(200, spec_json(*language));
}

// Specifications here have no logos.
Task<Answer> resource(Services& services, http::Exchange& exchange) {
  COVE_CO_CHECK(co_await scope_of(services, exchange.request()));
  co_return fail(Errc::not_found, fmt::format("Kernel resource {} not found", exchange.request().param("file")));
}

Task<Answer> status(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto scope, co_await scope_of(services, exchange.request()));
  std::size_t connections = 0;
  auto last = services.started;
  const auto kernels = services.directory.all(exchange.request().principal.tenant, scope.get());
  for (const auto& named : kernels) {
    const auto hub = services.directory.known_hub(*named.kernel);
    if (!hub) continue;
    connections += hub->connections();
    last = std::max(last, hub->last_activity());
  }
  co_return http::json_response(200, json::object{{"started", iso_micros(services.started)},
                                                  {"last_activity", iso_micros(last)},
                                                  {"connections", connections},
                                                  {"kernels", kernels.size()}});
}

constexpr http::RouteOptions kOptions{.scoped = true, .query_token = true};

constexpr auto kSpecRoutes = std::to_array<Route>({
    {verb::get, "/api", answered<version>, kOptions},
    {verb::get, "/api/status", answered<status>, kOptions},
    {verb::get, "/api/kernelspecs", answered<list>, kOptions},
    {verb::get, "/api/kernelspecs/{spec}", answered<get>, kOptions},
    {verb::get, "/kernelspecs/{spec}/{file}", answered<resource>, kOptions},
});

}  // namespace

Routes spec_routes() {
  return kSpecRoutes;
}

}  // namespace cove::doors::jupyter
