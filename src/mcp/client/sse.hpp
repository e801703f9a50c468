#pragma once

#include <chrono>
#include <memory>

#include "mcp/client/http_side.hpp"
#include "mcp/client/transport.hpp"

namespace cove::mcp::client {

// HTTP+SSE of 2024-11-05: everything the server says comes over one stream, whose first event names where to POST. The
// end of the stream is the end of the session.
class Sse final : public Transport {
 public:
  // `listener` outlives it.
  Sse(HttpSide side, Listener& listener);
  ~Sse() override;

  // Opens the stream and waits for its first event. An address elsewhere than at the server's own origin is refused.
  async::Task<Result<>> start(std::chrono::steady_clock::time_point until);

  Result<> send(Outgoing message) override;
  async::Task<Result<>> deliver(Outgoing message) override;
  bool abandon(std::uint64_t) override { return false; }
  void settled(std::string_view revision) override;
  async::Task<> close() override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cove::mcp::client
