#include <algorithm>
#include <array>

#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/network_policy.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr http::RouteOptions kPolicyBody{.body_limit = 1U << 20};
constexpr std::uint64_t kMaxRecords = 1000;

Task<Result<json::object>> shown_network(Services& services, std::shared_ptr<sandbox::Sandbox> found) {
  auto object = egress::to_json(services.networks.policy_of(*found), egress::Secrets::hidden);
  COVE_CO_TRY(auto inspected, co_await services.networks.inspect(found));
  inspected.erase("policy");
  for (auto& [name, value] : inspected) object[name] = std::move(value);
  co_return object;
}

Task<Answer> get_network(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(auto object, co_await shown_network(services, found));
  co_return http::json_response(200, std::move(object));
}

// Whether connections that are open are judged by the new policy too.
Result<wire::EgressScope> scope_of(const json::object& body) {
  COVE_TRY(const auto existing, text_field(body, "existing"));
  if (!existing || *existing == "keep") return wire::EgressScope::new_connections;
  if (*existing == "check") return wire::EgressScope::all_connections;
  return fail(Errc::invalid, "existing must be keep or check");
}

Task<Answer> put_network(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(auto body, co_await read_object(services, exchange));
  COVE_CO_TRY(const auto scope, scope_of(body));
  body.erase("existing");
  COVE_CO_TRY(auto policy, requested_policy(services, exchange.request().principal, std::move(body)));
  COVE_CO_CHECK(co_await services.networks.set(found, std::move(policy), scope));
  found->touch();
  COVE_CO_TRY(auto object, co_await shown_network(services, found));
  co_return http::json_response(200, std::move(object));
}

Task<Answer> get_network_log(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, request));
  COVE_CO_TRY(const auto after, number_query(request, "after"));
  COVE_CO_TRY(const auto limit, number_query(request, "limit"));
  if (limit && (*limit < 1 || *limit > kMaxRecords)) co_return fail(Errc::invalid, "limit must be between 1 and 1000");
  json::array records;
  std::uint64_t last = after.value_or(0);
  for (auto& [number, record] : services.networks.log(*found, last, limit.value_or(100))) {
    record["number"] = number;
    last = number;
    records.emplace_back(std::move(record));
  }
  co_return http::json_response(200, json::object{{"records", std::move(records)}, {"next", last}});
}

constexpr auto kNetworkRoutes = std::to_array<Route>({
    {verb::get, "/v1/sandboxes/{id}/network", answered<get_network>},
    {verb::put, "/v1/sandboxes/{id}/network", answered<put_network>, kPolicyBody},
    {verb::get, "/v1/sandboxes/{id}/network/log", answered<get_network_log>},
});

}  // namespace

Result<egress::Policy> requested_policy(Services& services, const Principal& principal, json::value requested) {
  COVE_TRY(auto policy, egress::parse_policy(requested, "network"));
  if (!policy.headers.empty()) return fail(Errc::unsupported, "network.headers: headers cannot be added yet");
  if (services.authority.operates(principal)) return policy;
  const auto config = services.config();
  for (const auto& target : egress::private_targets(policy)) {
    if (std::ranges::find(config->network.reach, target) != config->network.reach.end()) continue;
    return fail(Errc::denied,
                fmt::format("network.allow: {} is a private address: only an operator's key, or network.reach in the "
                            "server's configuration, can allow it",
                            target));
  }
  return policy;
}

Routes network_routes() {
  return kNetworkRoutes;
}

}  // namespace cove::doors::sandboxes
