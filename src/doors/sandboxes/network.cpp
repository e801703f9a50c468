#include <array>
#include <charconv>

#include "doors/sandboxes/answers.hpp"
#include "egress/policy.hpp"
#include "network/requested.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

constexpr http::RouteOptions kPolicyBody{.body_limit = 1U << 20};
constexpr std::uint64_t kMaxRecords = 1000;

Task<Result<json::object>> shown_network(Services& services, std::shared_ptr<sandbox::Sandbox> found) {
  auto object = egress::to_json(services.networks.policy_of(*found), egress::Secrets::hidden);
  const auto proxy = services.networks.proxy_of(*found);
  object["proxy"] = proxy.empty() ? json::value() : json::value(proxy);
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
  const auto before = services.networks.policy_of(*found);
  COVE_CO_TRY(auto policy, network::requested_policy(services, exchange.request().principal, std::move(body), before));
  COVE_CO_CHECK(
      co_await services.networks.set(found, std::move(policy), scope, journal::actor_of(exchange.request().principal)));
  found->touch();
  COVE_CO_TRY(auto object, co_await shown_network(services, found));
  co_return http::json_response(200, std::move(object));
}

json::object shown_record(network::LogRecord record, const sandbox::Sandbox& of) {
  record.record["number"] = record.number;
  record.record["sandbox"] = of.name();
  return std::move(record.record);
}

// Streams the decisions that follow `after`.
Task<> follow_log(Services& services, http::Exchange& exchange, std::shared_ptr<sandbox::Sandbox> of,
                  std::uint64_t after) {
  // Sent at once: from here on the client misses nothing.
  auto text = http::sse_comment();
  auto spoke = Clock::now();
  while (!exchange.client_gone() && !services.draining()) {
    for (auto& record : services.networks.log(*of, after, kMaxRecords)) {
      after = record.number;
      const auto* event = record.record.if_contains("event");
      const std::string type(event != nullptr && event->is_string() ? event->get_string().c_str() : "lost");
      text += http::sse_event(after, type, json::serialize(shown_record(std::move(record), *of)));
    }
    if (text.empty() && Clock::now() - spoke > std::chrono::seconds(15)) text = http::sse_comment();
    if (!text.empty()) {
      if (!co_await exchange.write(text)) co_return;
      text.clear();
      spoke = Clock::now();
      continue;
    }
    const auto state = of->state();
    if (state == sandbox::State::deleting || state == sandbox::State::gone) break;
    co_await services.networks.log_grown(*of, Clock::now() + std::chrono::milliseconds(500));
  }
  [[maybe_unused]] const auto done = co_await exchange.finish();
}

Task<Answer> get_network_log(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, request));
  COVE_CO_TRY(const auto after, number_query(request, "after"));
  COVE_CO_TRY(const auto limit, number_query(request, "limit"));
  if (limit && (*limit < 1 || *limit > kMaxRecords)) co_return fail(Errc::invalid, "limit must be between 1 and 1000");
  auto last = after.value_or(0);
  if (wants_event_stream(request)) {
    const auto header = request.header("Last-Event-ID");
    std::from_chars(header.data(), header.data() + header.size(), last);
    auto head = event_stream();
    if (!co_await exchange.start(std::move(head))) co_return std::nullopt;
    co_await follow_log(services, exchange, found, last);
    co_return std::nullopt;
  }
  json::array records;
  for (auto& record : services.networks.log(*found, last, limit.value_or(100))) {
    last = record.number;
    records.emplace_back(shown_record(std::move(record), *found));
  }
  co_return http::json_response(200, json::object{{"records", std::move(records)}, {"next", last}});
}

constexpr auto kNetworkRoutes = std::to_array<Route>({
    {verb::get, "/v1/sandboxes/{id}/network", answered<get_network>},
    {verb::put, "/v1/sandboxes/{id}/network", answered<put_network>, kPolicyBody},
    {verb::get, "/v1/sandboxes/{id}/network/log", answered<get_network_log>},
});

}  // namespace

Routes network_routes() {
  return kNetworkRoutes;
}

}  // namespace cove::doors::sandboxes
