#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "http/exchange.hpp"
#include "mcp/http/follow.hpp"
#include "mcp/http/posted.hpp"
#include "mcp/http/replay_streams.hpp"
#include "mcp/http/routes.hpp"
#include "mcp/http/stream.hpp"
#include "mcp/peer.hpp"
#include "sandbox/core.hpp"

namespace cove::mcp_http {

// Streamable HTTP of every revision, on one path: requests that carry everything, and sessions of those that do not.
// Beside it what came before, HTTP with events, and the lines of clients that speak over pipes.
class Endpoint {
 public:
  struct Services {
    sandbox::Core& core;
    cove::mcp::Service& service;
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
  Task<> end_idle_sessions();

  [[nodiscard]] const ReplayStreams& replay() const { return replay_; }

 private:
  struct Session {
    std::string name;
    http::Principal principal;  // that began it
    std::shared_ptr<cove::mcp::Peer> peer;
    std::shared_ptr<Stream> standalone;
    std::map<std::string, std::shared_ptr<Stream>> streams;
    std::uint64_t next_stream = 1;
    std::chrono::steady_clock::time_point used;
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
  void end(const std::shared_ptr<Session>& session);
  Following following(const std::shared_ptr<Session>& session, std::uint64_t after) const;

  boost::asio::any_io_executor executor_;
  Services services_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
  std::map<std::string, Listener> listeners_;
  ReplayStreams replay_;
};

}  // namespace cove::mcp_http
