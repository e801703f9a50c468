#include <array>

#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/notes.hpp"
#include "packages/index_page.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxAtOnce = 50;

tl::unexpected<Error> wrong(std::string message) {
  return fail(Errc::invalid, std::move(message));
}

Result<std::vector<packages::Package>> packages_field(const json::object& body, std::string_view field) {
  const auto* value = body.if_contains(field);
  if (value == nullptr || !value->is_array() || value->as_array().empty() || value->as_array().size() > kMaxAtOnce)
    return wrong(fmt::format("{} must be an array of 1 to {} names or {{name, version}}", field, kMaxAtOnce));
  std::vector<packages::Package> packages;
  for (std::size_t i = 0; i < value->as_array().size(); ++i) {
    const auto& entry = value->as_array()[i];
    const auto where = fmt::format("{}[{}]", field, i);
    packages::Package package;
    if (entry.is_string()) {
      package.name = entry.as_string();
    } else if (entry.is_object()) {
      COVE_TRY(const auto name, text_field(entry.as_object(), "name"));
      COVE_TRY(const auto version, text_field(entry.as_object(), "version"));
      package = {.name = name.value_or(""), .version = version.value_or("")};
    } else {
      return wrong(fmt::format("{} must be a name or an object of name and version", where));
    }
    if (const auto good = packages::requirement(package.name, package.version); !good)
      return wrong(fmt::format("{}: {}", where, good.error().message));
    packages.push_back(std::move(package));
  }
  return packages;
}

}  // namespace

Result<packages::InstallRequest> parse_install(const json::object& body, const config::Dependencies& config,
                                               std::string_view packages, std::string_view timeout) {
  packages::InstallRequest request;
  COVE_TRY(request.packages, packages_field(body, packages));
  COVE_TRY(const auto seconds, number_field(body, timeout));
  COVE_TRY(request.timeout, packages::install_time(config, seconds, timeout));
  COVE_TRY(const auto index, text_field(body, "indexUrl"));
  COVE_CHECK(packages::choose_index(request, config, index, "indexUrl"));
  return request;
}

namespace {

constexpr auto kDependencyFields = std::to_array<std::string_view>({"packages", "timeoutSeconds", "indexUrl"});

Task<Answer> install(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange, kDependencyFields));
  COVE_CO_TRY(auto request, parse_install(body, services.config()->dependencies, "packages", "timeoutSeconds"));
  request.actor = journal::actor_of(exchange.request().principal);
  COVE_CO_CHECK(services.installs.begin(found, std::move(request)));
  found->touch();
  co_return http::json_response(202, services.installs.status(*found));
}

Task<Answer> show(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  found->touch();
  co_return http::json_response(200, services.installs.status(*found));
}

constexpr auto kDependencyRoutes = std::to_array<Route>({
    {verb::post, "/v1/sandboxes/{id}/dependencies", answered<install>},
    {verb::get, "/v1/sandboxes/{id}/dependencies", answered<show>},
});

}  // namespace

Routes dependency_routes() {
  return kDependencyRoutes;
}

}  // namespace cove::doors::sandboxes
