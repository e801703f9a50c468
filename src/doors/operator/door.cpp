#include "doors/operator/door.hpp"

#include <boost/json.hpp>

#include "http/exchange.hpp"
#include "http/response.hpp"

// Defined by cove_embed() in CMakeLists.txt.
extern "C" {
extern const char cove_embedded_openapi[];
extern const char cove_embedded_openapi_end[];
}

namespace cove::doors::operators {
namespace {

using async::Task;

http::Response health(Services& services) {
  if (services.healthy()) return http::text_response(200, "OK");
  auto draining = http::text_response(503, "shutting down");
  draining.headers.emplace_back("Retry-After", "1");
  return draining;
}

http::Response version(Services& /*services*/) {
  return http::json_response(200, boost::json::object{{"name", "cove"}, {"version", COVE_VERSION}, {"api", "v1"}});
}

http::Response metrics(Services& services) {
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = services.metrics()};
}

http::Response openapi(Services& /*services*/) {
  return {.body = std::string(cove_embedded_openapi, cove_embedded_openapi_end)};
}

template <http::Response (*answer)(Services&)>
Task<> answered(Services& services, http::Exchange& exchange) {
  auto response = answer(services);
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

}  // namespace

std::vector<http::RouteRow<Services>> routes(config::MetricsAccess metrics_access) {
  using http::Access;
  using http::verb;
  const bool here = metrics_access == config::MetricsAccess::loopback;
  return {
      {verb::get, "/healthz", answered<health>, {.access = Access::open}},
      {verb::get, "/version", answered<version>, {.access = Access::open}},
      {verb::get, "/metrics", answered<metrics>, {.access = here ? Access::key_or_loopback : Access::key}},
      {verb::get, "/openapi.json", answered<openapi>},
  };
}

void add_routes(http::Router& router, Services& services) {
  http::add_routes(router, routes(services.metrics_access), services);
}

}  // namespace cove::doors::operators
