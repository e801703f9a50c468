#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "doors/mcp/door.hpp"
#include "doors/mcp/stream.hpp"

namespace cove::doors::mcp {

// Streamable HTTP of every revision, on one path: requests that carry everything, and sessions of those that do not.
class Endpoint {
 public:
  struct Options {
    std::chrono::milliseconds idle{std::chrono::hours(1)};  // of a session that nobody uses
    std::size_t sessions = 1000;
  };
  Endpoint(boost::asio::any_io_executor executor, async::TaskGroup& tasks, cove::mcp::Service& service,
           Options options);

  Task<> post(http::Exchange& exchange);
  Task<> get(http::Exchange& exchange);
  Task<> remove(http::Exchange& exchange);
  // One client over a WebSocket that carries its lines as they are.
  Task<> line(http::Exchange& exchange);

  // Ends sessions that nobody uses, until cancelled.
  Task<> keep_time();

 private:
  struct Session {
    std::string name;
    std::shared_ptr<cove::mcp::Peer> peer;
    std::shared_ptr<Stream> standalone;
    std::map<std::string, std::shared_ptr<Stream>> streams;
    std::uint64_t next_stream = 1;
    std::chrono::steady_clock::time_point used;
  };
  struct Posted;

  Task<> post_modern(http::Exchange& exchange, Posted posted);
  Task<> post_legacy(http::Exchange& exchange, Posted posted);
  Task<> answer(http::Exchange& exchange, Posted posted, std::shared_ptr<cove::mcp::Peer> peer,
                std::shared_ptr<Session> session);
  // `only_for_this` is ended when the client leaves.
  Task<> follow(http::Exchange& exchange, std::shared_ptr<Stream> stream, std::uint64_t after,
                std::shared_ptr<Session> session, std::shared_ptr<cove::mcp::Peer> only_for_this);
  std::shared_ptr<Session> find(const http::Request& request);
  std::shared_ptr<Stream> new_stream(Session& session);
  void end(const std::shared_ptr<Session>& session);

  boost::asio::any_io_executor executor_;
  async::TaskGroup& tasks_;
  cove::mcp::Service& service_;
  Options options_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
};

}  // namespace cove::doors::mcp
