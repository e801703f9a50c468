#pragma once

#include <optional>

#include "http/head.hpp"
#include "http/peer.hpp"
#include "http/response.hpp"
#include "http/router.hpp"
#include "http/server_shared.hpp"

namespace cove::http {

// Whether a well-formed request reaches its handler: exactly one of `route` and `refusal` is there.
struct RequestCheck {
  const Router::Route* route = nullptr;
  std::optional<Response> refusal;
  bool keyed = false;  // the route asks for a key
  std::string page;    // the origin of another site's page that may read the answer; "": none
};

// Checks Host and Origin, answers preflights, then checks the key, the route, the scope, the encoding and the length,
// in this order. Fills in the request's principal as soon as its key is known, and its parameters and scope when the
// route is. `binding` is that of the listener; null: none.
RequestCheck check_request(ServerShared& shared, const ServerOptions& options, const Peer& peer, const Binding* binding,
                           Head& head);

Response response_of(const Refusal& refusal);

}  // namespace cove::http
