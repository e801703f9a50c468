#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mcp/http/endpoint.hpp"
#include "mcp/http/refusal.hpp"

namespace cove::mcp_http {
namespace {

namespace json = boost::json;

// The well-known path goes between the host and the path of the resource.
std::string metadata_address(const std::string& resource) {
  const auto host = resource.find("://") + 3;
  const auto path = std::min(resource.find('/', host), resource.size());
  return resource.substr(0, path) + "/.well-known/oauth-protected-resource" +
         (resource.ends_with('/') ? "" : resource.substr(path));
}

}  // namespace

std::string token_challenge(const config::OAuth& oauth) {
  if (!oauth.configured()) return "";
  auto out = fmt::format("resource_metadata=\"{}\"", metadata_address(oauth.resource));
  if (!oauth.scopes.empty()) out += fmt::format(", scope=\"{}\"", fmt::join(oauth.scopes, " "));
  return out;
}

Task<> Endpoint::describe_resource(http::Exchange& exchange) {
  const auto config = services_.core.config();
  if (!config->oauth.configured())
    co_return co_await send(
        exchange, http::error_response(404, "not_found", "this server accepts its own API keys only, no OAuth tokens"));
  const json::object described{{"resource", config->oauth.resource},
                               {"authorization_servers", json::value_from(config->oauth.authorization_servers)},
                               {"scopes_supported", json::value_from(config->oauth.scopes)},
                               {"bearer_methods_supported", json::array{"header"}},
                               {"resource_name", "Cove"}};
  co_await send(exchange, http::json_response(200, described));
}

}  // namespace cove::mcp_http
