#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "async/task_group.hpp"
#include "config/config.hpp"
#include "doors/mcp/door.hpp"
#include "doors/mcp/follow.hpp"
#include "doors/mcp/posted.hpp"
#include "doors/mcp/stream.hpp"
#include "http/exchange.hpp"
#include "mcp/peer.hpp"

namespace cove::doors::mcp {

// Streamable HTTP of every revision, on one path: requests that carry everything, and sessions of those that do not.
// Beside it what came before, HTTP with events, and the lines of clients that speak over pipes.
class Endpoint {
 public:
  struct Services {
    async::TaskGroup& tasks;
    cove::mcp::Service& service;
    std::function<std::shared_ptr<const config::Config>()> config;  // of now: a reload changes it
    // Whether who was let in once still would be: for what lasts.
    std::function<bool(const http::Principal&)> still_valid;
  };
  Endpoint(boost::asio::any_io_executor executor, Services services);

  Task<> post(http::Exchange& exchange);
  Task<> get(http::Exchange& exchange);
  Task<> remove(http::Exchange& exchange);
  // Where tokens for this server can be had (RFC 9728).
  Task<> describe_resource(http::Exchange& exchange);
  // What a browser asks before a page of an allowed origin may post.
  Task<> preflight(http::Exchange& exchange);
  // One client over a WebSocket that carries its lines as they are.
  Task<> line(http::Exchange& exchange);
  // HTTP with events, of revision 2024-11-05: everything comes on one stream, everything is posted beside it.
  Task<> events(http::Exchange& exchange);
  Task<> message(http::Exchange& exchange);

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
  struct Kept {
    std::weak_ptr<Session> session;
    std::shared_ptr<Stream> stream;
  };
  // Of HTTP with events.
  struct Listener {
    std::shared_ptr<cove::mcp::Peer> peer;
    std::shared_ptr<Stream> stream;
  };

  // Nothing when it was refused.
  Task<std::optional<Posted>> read(http::Exchange& exchange);
  Task<> post_modern(http::Exchange& exchange, Posted posted);
  Task<> post_legacy(http::Exchange& exchange, Posted posted);
  // Without a session the answer is for whoever waits for it: who leaves, cancels.
  Task<> answer(http::Exchange& exchange, Posted posted, std::shared_ptr<cove::mcp::Peer> peer,
                std::shared_ptr<Session> session);
  std::shared_ptr<cove::mcp::Peer> new_peer(const http::Request& request, cove::mcp::Peer::Options options) const;
  // Null when there is no place for another.
  std::shared_ptr<Session> new_session(const http::Request& request);
  std::shared_ptr<Session> find(const http::Request& request);
  std::shared_ptr<Stream> new_stream(Session& session) const;
  // A stream that was sent stays for a while, for a client that did not get it.
  void keep(const std::shared_ptr<Session>& session, const std::shared_ptr<Stream>& stream);
  void forget_stale_streams();
  void end(const std::shared_ptr<Session>& session);
  Following following(const http::Request& request, const std::shared_ptr<Session>& session, std::uint64_t after) const;

  boost::asio::any_io_executor executor_;
  Services services_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
  std::map<std::string, Listener> listeners_;
  std::deque<Kept> kept_;  // oldest first
};

}  // namespace cove::doors::mcp
