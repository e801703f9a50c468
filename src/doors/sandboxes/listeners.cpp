#include "listeners/listeners.hpp"

#include <array>

#include "base/clock.hpp"
#include "config/value.hpp"
#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/notes.hpp"
#include "sandbox/name.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr auto kListenerFields = std::to_array<std::string_view>({"listen", "sandbox"});

json::object listener_json(const listeners::Listener& listener) {
  return {{"listen", listener.endpoint.text()},
          {"port", listener.endpoint.port},
          {"sandbox", listener.sandbox},
          {"openedAt", iso_time(listener.opened_unix_ms)}};
}

// Who may have this address. A port that the system chooses is in nobody's way; one that the caller chooses may be
// somebody else's on this machine, and another address than loopback lets other machines in.
Result<> check_address(const Services& services, const http::Principal& principal, const config::Endpoint& endpoint) {
  const bool operates = services.authority.operates(principal);
  if (!endpoint.loopback() && principal.key_id.empty())
    return fail(Errc::denied, fmt::format("listen: {} is reachable from other machines, and this server needs no keys: "
                                          "use 127.0.0.1",
                                          endpoint.text()));
  if (!endpoint.loopback() && !operates)
    return fail(Errc::denied, "listen: only an operator may use another address than 127.0.0.1");
  if (endpoint.port != 0 && !operates)
    return fail(Errc::denied, "listen: only an operator may choose the port: use port 0");
  return {};
}

Task<Answer> open_listener(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange, kListenerFields));
  COVE_CO_CHECK(check_serving(services));
  COVE_CO_TRY(const auto listen, text_field(body, "listen"));
  COVE_CO_TRY(const auto name, text_field(body, "sandbox"));
  if (!name || name->empty()) co_return fail(Errc::invalid, "sandbox is missing or empty");
  const auto endpoint = config::parse_endpoint(listen.value_or("127.0.0.1:0"));
  if (!endpoint) co_return fail(Errc::invalid, "listen: " + endpoint.error().message);
  COVE_CO_CHECK(sandbox::checked_name(*name));
  const auto& principal = exchange.request().principal;
  COVE_CO_CHECK(check_address(services, principal, *endpoint));
  COVE_CO_TRY(auto found, co_await services.registry.find(principal.tenant, *name));
  COVE_CO_TRY(const auto listener, services.listeners.open(*endpoint, std::move(found)));
  co_return http::json_response(201, listener_json(listener));
}

Task<Answer> list_listeners(Services& services, http::Exchange& exchange) {
  json::array list;
  for (const auto& listener : services.listeners.of(exchange.request().principal.tenant))
    list.push_back(listener_json(listener));
  co_return http::json_response(200, json::object{{"listeners", std::move(list)}});
}

Task<Answer> close_listener(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto port, port_param(exchange.request()));
  COVE_CO_CHECK(services.listeners.close(exchange.request().principal.tenant, port));
  co_return http::no_content();
}

constexpr auto kListenerRoutes = std::to_array<Route>({
    {verb::post, "/v1/listeners", answered<open_listener>},
    {verb::get, "/v1/listeners", answered<list_listeners>},
    {verb::delete_, "/v1/listeners/{port}", answered<close_listener>},
});

}  // namespace

Routes listener_routes() {
  return kListenerRoutes;
}

}  // namespace cove::doors::sandboxes
