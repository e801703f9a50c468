#include "doors/operator/door.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cctype>

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

std::string example(const std::string& base) {
  return "curl " + base + R"sh(/v1/execute -H 'Content-Type: application/json' -d '{"code": "print(6*7)"}')sh";
}

// The first page: what this is, and where to go on. Nothing here is a secret; a server with keys asks for one after it.
std::string page_text(const std::string& base) {
  return fmt::format(
      "Cove {1}: runs untrusted code in sandboxes.\n\n"
      "  {0}/openapi.json   every route, as OpenAPI\n"
      "  {0}/metrics        metrics, for Prometheus\n"
      "  {0}/healthz        whether it serves\n"
      "  {0}/mcp            the Model Context Protocol\n\n"
      "Try it (with keys, add -H 'Authorization: Bearer KEY'):\n  {2}\n\n"
      "From a shell: COVE_URL={0} cove create demo. cove help lists the commands; the manual is docs/ in the source.\n",
      base, COVE_VERSION, example(base));
}

std::string page_html(const std::string& base) {
  return fmt::format(
      "<!doctype html><html lang=en><meta charset=utf-8><title>Cove</title>\n"
      "<h1>Cove {1}</h1><p>Runs untrusted code in sandboxes.</p>\n<ul>"
      "<li><a href=\"/openapi.json\">openapi.json</a>: every route</li>"
      "<li><a href=\"/metrics\">metrics</a>, for Prometheus</li>"
      "<li><a href=\"/healthz\">healthz</a>: whether it serves</li>"
      "<li><code>/mcp</code>: the Model Context Protocol</li></ul>\n"
      "<p>Try it (with keys, add <code>-H 'Authorization: Bearer KEY'</code>):</p><pre>{2}</pre>\n"
      "<p>From a shell: <code>COVE_URL={0} cove create demo</code>. <code>cove help</code> lists the "
      "commands; the manual is <code>docs/</code> in the source.</p></html>\n",
      base, COVE_VERSION, example(base));
}

// The name the client knows us by, if it can stand in a page as it is.
std::string base_of(const http::Request& request) {
  const auto host = request.header("Host");
  const bool plain = !host.empty() && host.size() <= 255 && std::ranges::all_of(host, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-.:[]").find(static_cast<char>(c)) != std::string_view::npos;
  });
  return "http://" + (plain ? std::string(host) : std::string("127.0.0.1:8000"));
}

Task<> first_page(Services& /*services*/, http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto base = base_of(request);
  const bool html = request.header("Accept").find("text/html") != std::string_view::npos;
  http::Response response = http::text_response(200, html ? page_html(base) : page_text(base));
  if (html) {
    response.content_type = "text/html; charset=utf-8";
    response.headers.emplace_back("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
  }
  response.headers.emplace_back("Vary", "Accept");
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
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
      {verb::get, "/", first_page, {.navigable = true}},
      {verb::get, "/healthz", answered<health>, {.access = Access::open, .scoped = true}},
      {verb::get, "/version", answered<version>, {.access = Access::open}},
      {verb::get, "/metrics", answered<metrics>, {.access = here ? Access::key_or_loopback : Access::key}},
      {verb::get, "/openapi.json", answered<openapi>},
  };
}

void add_routes(http::Router& router, Services& services) {
  http::add_routes(router, routes(services.metrics_access), services, "operator");
}

}  // namespace cove::doors::operators
