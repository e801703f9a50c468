#include "doors/sandboxes/answers.hpp"
#include "sandbox/index_page.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostAtOnce = 50;

tl::unexpected<Error> wrong(std::string message) {
  return fail(Errc::invalid, std::move(message));
}

Result<std::vector<sandbox::Package>> packages_field(const json::object& body, std::string_view field) {
  const auto* value = body.if_contains(field);
  if (value == nullptr || !value->is_array() || value->as_array().empty() || value->as_array().size() > kMostAtOnce)
    return wrong(fmt::format("{} must be an array of 1 to {} names or {{name, version}}", field, kMostAtOnce));
  std::vector<sandbox::Package> packages;
  for (std::size_t i = 0; i < value->as_array().size(); ++i) {
    const auto& entry = value->as_array()[i];
    const auto where = fmt::format("{}[{}]", field, i);
    sandbox::Package package;
    if (entry.is_string()) {
      package.name = entry.as_string();
    } else if (entry.is_object()) {
      COVE_TRY(const auto name, text_field(entry.as_object(), "name"));
      COVE_TRY(const auto version, text_field(entry.as_object(), "version"));
      package = {.name = name.value_or(""), .version = version.value_or("")};
    } else {
      return wrong(fmt::format("{} must be a name or an object of name and version", where));
    }
    if (const auto good = sandbox::requirement(package.name, package.version); !good)
      return wrong(fmt::format("{}: {}", where, good.error().message));
    packages.push_back(std::move(package));
  }
  return packages;
}

}  // namespace

Result<sandbox::InstallRequest> parse_install(const json::object& body, const config::Dependencies& config,
                                              std::string_view packages, std::string_view timeout) {
  sandbox::InstallRequest request;
  COVE_TRY(request.packages, packages_field(body, packages));
  COVE_TRY(const auto seconds, number_field(body, timeout));
  COVE_TRY(request.timeout, sandbox::install_time(config, seconds, timeout));
  COVE_TRY(const auto index, text_field(body, "indexUrl"));
  COVE_CHECK(sandbox::choose_index(request, config, index, "indexUrl"));
  return request;
}

namespace {

Task<> install(Services& services, http::Exchange& exchange) {
  const auto body = co_await read_object(services, exchange);
  if (!body) co_return co_await refuse(exchange, body.error());
  const auto found = co_await find_sandbox(services, exchange.request());
  if (!found) co_return co_await refuse(exchange, found.error());
  auto request = parse_install(*body, services.config()->dependencies, "packages", "timeoutSeconds");
  if (!request) co_return co_await refuse(exchange, request.error());
  if (const auto begun = services.installs.begin(*found, std::move(*request)); !begun)
    co_return co_await refuse(exchange, begun.error());
  (*found)->touch();
  auto response = http::json_response(202, services.installs.status(**found));
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

Task<> show(Services& services, http::Exchange& exchange) {
  const auto found = co_await find_sandbox(services, exchange.request());
  if (!found) co_return co_await refuse(exchange, found.error());
  (*found)->touch();
  auto response = http::json_response(200, services.installs.status(**found));
  [[maybe_unused]] const auto sent = co_await exchange.send(std::move(response));
}

}  // namespace

void add_dependency_routes(http::Router& router, Services* services) {
  using http::verb;
  auto* s = services;
  const std::string path = "/v1/sandboxes/{id}/dependencies";
  router.add(verb::post, path, [s](auto& exchange) { return install(*s, exchange); });
  router.add(verb::get, path, [s](auto& exchange) { return show(*s, exchange); });
}

}  // namespace cove::doors::sandboxes
