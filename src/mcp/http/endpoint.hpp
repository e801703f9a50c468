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

// Streamable HTTP of every revision on one path: self-contained requests (2026-07-28), and sessions of older revisions.
// Also HTTP+SSE (2024-11-05), and the line transport that `cove mcp` uses.
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
  // Where to get tokens for this server (RFC 9728).
  Task<> describe_resource(http::Exchange& exchange);
  // One client over a WebSocket that carries its lines unchanged.
  Task<> line(http::Exchange& exchange);
  // HTTP+SSE of revision 2024-11-05: the server sends on one stream, the client posts to another path.
  Task<> events(http::Exchange& exchange);
  Task<> message(http::Exchange& exchange);

  // Ends idle sessions, until cancelled.
  Task<> end_idle_sessions();

  [[nodiscard]] const ReplayStreams& replay() const { return replay_; }

 private:
  struct HttpSession {
    std::string name;
    http::Principal principal;  // that opened it
    std::shared_ptr<cove::mcp::Peer> peer;
    std::shared_ptr<Stream> standalone;
    std::map<std::string, std::shared_ptr<Stream>> streams;
    std::uint64_t next_stream = 1;
    std::chrono::steady_clock::time_point used;
  };
  // A client of HTTP+SSE.
  struct Listener {
    std::shared_ptr<cove::mcp::Peer> peer;
    std::shared_ptr<Stream> stream;
  };

  // nullopt when it was refused.
  Task<std::optional<Posted>> read(http::Exchange& exchange);
  Task<> post_modern(http::Exchange& exchange, Posted posted);
  Task<> post_legacy(http::Exchange& exchange, Posted posted);
  // Without a session, a client that disconnects cancels its request.
  Task<> answer(http::Exchange& exchange, Posted posted, std::shared_ptr<cove::mcp::Peer> peer,
                std::shared_ptr<HttpSession> session);
  std::shared_ptr<cove::mcp::Peer> new_peer(const http::Request& request, cove::mcp::Peer::Options options) const;
  // Null at the limit of sessions.
  std::shared_ptr<HttpSession> new_session(const http::Request& request);
  std::shared_ptr<HttpSession> find(const http::Request& request);
  std::shared_ptr<Stream> new_stream(HttpSession& session) const;
  // Keeps a sent stream for a while, for a client that reconnects.
  void keep(const std::shared_ptr<HttpSession>& session, const std::shared_ptr<Stream>& stream);
  void end(const std::shared_ptr<HttpSession>& session);
  Following following(const std::shared_ptr<HttpSession>& session, std::uint64_t after) const;

  boost::asio::any_io_executor executor_;
  Services services_;
  std::map<std::string, std::shared_ptr<HttpSession>> sessions_;
  std::map<std::string, Listener> listeners_;
  ReplayStreams replay_;
};

}  // namespace cove::mcp_http
