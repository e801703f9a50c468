#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>

#include "mcp/client/client.hpp"
#include "mcp/client/pipes.hpp"
#include "mcp/client/transport.hpp"

namespace cove::mcp::client {

// A message a line, over the pipes of a program. What the program writes that is no JSON is passed over.
class Stdio final : public Transport {
 public:
  // `listener` outlives it.
  Stdio(boost::asio::any_io_executor executor, std::unique_ptr<Pipes> pipes, const Limits& limits, Listener& listener);
  ~Stdio() override;

  Result<> send(Outgoing message) override;
  async::Task<Result<>> deliver(Outgoing message) override;
  bool abandon(std::uint64_t) override { return false; }
  void settled(std::string_view) override {}
  // The end of its input, then SIGTERM, then SIGKILL, two seconds apart.
  async::Task<> close() override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cove::mcp::client
