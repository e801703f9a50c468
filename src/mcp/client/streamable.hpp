#pragma once

#include <memory>

#include "mcp/client/http_side.hpp"
#include "mcp/client/transport.hpp"

namespace cove::mcp::client {

// Streamable HTTP: a POST for each message, answered as JSON or as events; of the older revisions also a session, a
// stream of what the server says on its own, and streams that are taken up again where they broke.
class Streamable final : public Transport {
 public:
  // `listener` outlives it.
  Streamable(HttpSide side, Listener& listener);
  ~Streamable() override;

  Result<> send(Outgoing message) override;
  async::Task<Result<>> deliver(Outgoing message) override;
  bool abandon(std::uint64_t id) override;
  void settled(std::string_view revision) override;
  async::Task<> close() override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cove::mcp::client
