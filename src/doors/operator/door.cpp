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

Task<> send(http::Exchange& exchange, http::Response response) {
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

Task<> health(Services& services, http::Exchange& exchange) {
  if (services.healthy()) return send(exchange, http::text_response(200, "OK"));
  auto draining = http::text_response(503, "shutting down");
  draining.headers.emplace_back("Retry-After", "1");
  return send(exchange, std::move(draining));
}

Task<> version(http::Exchange& exchange) {
  return send(exchange, http::json_response(
                            200, boost::json::object{{"name", "cove"}, {"version", COVE_VERSION}, {"api", "v1"}}));
}

Task<> metrics(Services& services, http::Exchange& exchange) {
  http::Response response{.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = services.metrics()};
  return send(exchange, std::move(response));
}

Task<> openapi(http::Exchange& exchange) {
  http::Response response{.body = std::string(cove_embedded_openapi, cove_embedded_openapi_end)};
  return send(exchange, std::move(response));
}

}  // namespace

void add_routes(http::Router& router, Services* services) {
  using http::verb;
  const http::RouteOptions open{.access = http::Access::open};
  const bool open_metrics = services != nullptr && services->metrics_access == config::MetricsAccess::loopback;
  router.add(verb::get, "/healthz", [services](auto& exchange) { return health(*services, exchange); }, open);
  router.add(verb::get, "/version", [](auto& exchange) { return version(exchange); }, open);
  router.add(
      verb::get, "/metrics", [services](auto& exchange) { return metrics(*services, exchange); },
      open_metrics ? open : http::RouteOptions());
  router.add(verb::get, "/openapi.json", [](auto& exchange) { return openapi(exchange); });
}

}  // namespace cove::doors::operators
