#include <algorithm>
#include <array>
#include <boost/asio/this_coro.hpp>

#include "base/text.hpp"
#include "doors/jupyter/answers.hpp"
#include "http/encoding.hpp"

namespace cove::doors::jupyter {
namespace {

constexpr std::size_t kMaxMessage = 16U << 20;  // from a client
constexpr std::size_t kMaxSession = 256;        // bytes of the client's name for itself

bool offers(const http::Request& request, std::string_view protocol) {
  for (const auto header : request.header_all("Sec-WebSocket-Protocol")) {
    auto rest = header;
    while (!rest.empty()) {
      if (http::trim(take_until(rest, ',')) == protocol) return true;
    }
  }
  return false;
}

// A client is no longer the hub's, however its connection ends.
class Attached {
 public:
  Attached(std::shared_ptr<Hub> hub, std::shared_ptr<Client> client)
      : hub_(std::move(hub)), client_(std::move(client)) {
    hub_->attach(client_);
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;
  ~Attached() {
    hub_->detach(client_);
    client_->cut();
  }

 private:
  std::shared_ptr<Hub> hub_;
  std::shared_ptr<Client> client_;
};

Task<> channels(Services& services, http::Exchange& exchange) {
  const auto& request = exchange.request();
  const auto named = co_await find_kernel(services, request);
  if (!named) {
    co_await send_answer(services, exchange, tl::unexpected<Error>(named.error()));
    co_return;
  }
  if (request.header("Upgrade").empty()) {
    co_await send_answer(services, exchange, fail(Errc::invalid, "Can \"Upgrade\" only to \"WebSocket\"."));
    co_return;
  }
  const auto framing = offers(request, kV1Protocol) ? Framing::v1 : Framing::legacy;
  auto session = request.query("session_id").value_or("").substr(0, kMaxSession);
  const auto principal = request.principal;
  http::WebSocketWish wish{.protocol = framing == Framing::v1 ? std::string(kV1Protocol) : std::string(),
                           .message_limit = kMaxMessage};
  auto accepted = co_await exchange.accept_websocket(std::move(wish));
  if (!accepted) co_return;
  const std::shared_ptr<http::WebSocket> socket = std::move(*accepted);
  const auto executor = co_await boost::asio::this_coro::executor;
  const auto client = std::make_shared<Client>(executor, socket, framing, std::move(session), principal);
  const auto hub = services.directory.hub(*named);
  const Attached attached(hub, client);
  services.tasks.spawn("send to a client of a kernel", Client::pump(client));
  while (true) {
    while (client->overfull()) co_await client->changed().wait();
    auto received = co_await client->read();
    if (!received) break;
    auto message = decode(framing, received->text, received->data);
    if (!message) {
      client->close(1007, message.error().message);
      while (!client->over()) co_await client->changed().wait();
      break;
    }
    hub->receive(client, std::move(*message), std::move(received->charge));
  }
}

constexpr http::RouteOptions kOptions{.head = false, .scoped = true, .query_token = true};

constexpr auto kChannelRoutes = std::to_array<Route>({
    {verb::get, "/api/kernels/{kernel}/channels", channels, kOptions},
});

}  // namespace

Routes channel_routes() {
  return kChannelRoutes;
}

}  // namespace cove::doors::jupyter
