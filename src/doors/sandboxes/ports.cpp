#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/process_socket.hpp"

namespace cove::doors::sandboxes {
namespace {

// One connection to a server inside, as a WebSocket. The way leads through init: no network is needed.
Task<Answer> connect_port(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, request));
  COVE_CO_TRY(const auto port, port_param(request));
  const sandbox::Sandbox::Activity activity(found);
  sandbox::ProcessRequest wanted{.argv = {"/cove/bin/connect", std::to_string(port)},
                                 .directory = "/",
                                 .input = sandbox::InputMode::open,
                                 .delivery = sandbox::Delivery::everything};
  wanted.abandoned = [&exchange] { return exchange.client_gone(); };
  COVE_CO_TRY(const auto process, co_await found->start(std::move(wanted)));
  auto accepted = co_await exchange.accept_websocket();
  if (accepted) co_await relay(services, std::move(*accepted), process, 1);
  process->stop(sandbox::Reason::cancelled);
  while (!process->end()) co_await process->changed().wait();
  found->forget(process);
  co_return std::nullopt;
}

constexpr auto kPortRoutes = std::to_array<Route>({
    {verb::get, "/v1/sandboxes/{id}/ports/{port}", answered<connect_port>},
});

}  // namespace

Routes port_routes() {
  return kPortRoutes;
}

}  // namespace cove::doors::sandboxes
