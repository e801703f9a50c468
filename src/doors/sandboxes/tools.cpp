#include <array>

#include "doors/sandboxes/answers.hpp"
#include "network/requested.hpp"
#include "tools/broker.hpp"
#include "tools/peer_calls.hpp"
#include "tools/server_json.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr http::RouteOptions kDefinitionBody{.body_limit = 1U << 20};
constexpr std::uint64_t kMaxToolRecords = 1000;

Task<Answer> list_tools(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  json::array servers;
  for (const auto& view : services.tools.list(*found)) servers.emplace_back(tools::to_json(view));
  co_return http::json_response(200, json::object{{"servers", std::move(servers)}});
}

Task<Answer> add_tools(Services& services, http::Exchange& exchange) {
  const auto& principal = exchange.request().principal;
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(auto body, co_await read_object(services, exchange));
  COVE_CO_TRY(auto name, text_field(body, "name"));
  if (!name) co_return fail(Errc::invalid, "name is missing: the server's name, which its package gets");
  const bool described = body.contains("command") || body.contains("url");
  if (!described && services.tools.named(*name)) {
    COVE_CO_TRY(const auto view, co_await services.tools.add_named(found, *name));
    co_return http::json_response(201, tools::to_json(view));
  }
  COVE_CO_TRY(auto definition, tools::parse_definition(std::move(*name), std::move(body)));
  if (!definition.network_json.empty())
    COVE_CO_CHECK(network::requested_policy(services, principal, json::parse(definition.network_json), {}));
  COVE_CO_TRY(const auto view, co_await services.tools.add(found, principal, std::move(definition)));
  co_return http::json_response(201, tools::to_json(view));
}

Task<Answer> get_tool_server(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(const auto view, services.tools.find(*found, exchange.request().param("server")));
  co_return http::json_response(200, tools::to_json(view));
}

Task<Answer> remove_tools(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_CHECK(services.tools.remove(*found, exchange.request().param("server")));
  co_return http::no_content();
}

Task<Answer> call_tool(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(auto body, co_await read_object(services, exchange));
  body["server"] = exchange.request().param("server");
  COVE_CO_TRY(auto call, tools::parse_call(body));
  if (call.tool.empty()) co_return fail(Errc::invalid, "tool is missing: its name, as the server spells it");
  COVE_CO_CHECK(services.tools.find(*found, call.server));
  call.sandbox = found;
  call.actor = journal::actor_of(exchange.request().principal);
  call.abandoned = [&exchange] { return exchange.client_gone(); };
  auto outcome = co_await services.tools.call(std::move(call));
  co_return http::json_response(200, tools::to_json(std::move(outcome)));
}

Task<Answer> get_tool_calls(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, request));
  COVE_CO_TRY(const auto after, number_query(request, "after"));
  COVE_CO_TRY(const auto limit, number_query(request, "limit"));
  if (limit && (*limit < 1 || *limit > kMaxToolRecords))
    co_return fail(Errc::invalid, "limit must be between 1 and 1000");
  json::array records;
  auto last = after.value_or(0);
  for (auto& record : services.tools.log(*found, last, limit.value_or(100))) {
    last = record.at("number").to_number<std::uint64_t>();
    records.emplace_back(std::move(record));
  }
  co_return http::json_response(200, json::object{{"records", std::move(records)}, {"next", last}});
}

Task<Answer> list_approvals(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  json::array approvals;
  for (const auto& request : services.tools.approvals().pending(found->row().id))
    approvals.emplace_back(tools::to_json(request));
  co_return http::json_response(200, json::object{{"approvals", std::move(approvals)}});
}

Task<Answer> answer_approval(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  COVE_CO_TRY(const auto approved, bool_field(body, "approved"));
  if (!approved) co_return fail(Errc::invalid, "approved is missing: true or false");
  COVE_CO_TRY(auto reason, text_field(body, "reason"));
  const auto& id = exchange.request().param("approval");
  COVE_CO_CHECK(services.tools.approvals().answer(found->row().id, id, *approved, reason.value_or("").substr(0, 1000)));
  co_return http::json_response(200, json::object{{"id", id}, {"approved", *approved}});
}

constexpr auto kToolRoutes = std::to_array<Route>({
    {verb::get, "/v1/sandboxes/{id}/tools", answered<list_tools>},
    {verb::post, "/v1/sandboxes/{id}/tools", answered<add_tools>, kDefinitionBody},
    {verb::get, "/v1/sandboxes/{id}/tools/{server}", answered<get_tool_server>},
    {verb::delete_, "/v1/sandboxes/{id}/tools/{server}", answered<remove_tools>},
    {verb::post, "/v1/sandboxes/{id}/tools/{server}/call", answered<call_tool>},
    {verb::get, "/v1/sandboxes/{id}/tool-calls", answered<get_tool_calls>},
    {verb::get, "/v1/sandboxes/{id}/approvals", answered<list_approvals>},
    {verb::post, "/v1/sandboxes/{id}/approvals/{approval}", answered<answer_approval>},
});

}  // namespace

Routes tool_routes() {
  return kToolRoutes;
}

}  // namespace cove::doors::sandboxes
