#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "base/result.hpp"
#include "mcp/client/client.hpp"
#include "mcp/client/oauth_metadata.hpp"
#include "outbound/url.hpp"

namespace cove::mcp::client {

// Tokens for one HTTP server, as OAuth 2.1 and the protocol have it: which authorization server it trusts is found out
// from what the server says (RFC 9728, RFC 8414), and asked for a token for this server alone (RFC 8707). Headless:
// with the configured credentials of a client, or through Environment::authorize. A token is never sent to another
// origin.
class Authorization {
 public:
  Authorization(std::shared_ptr<const Environment> environment, std::shared_ptr<const ServerConfig> config,
                outbound::Url server);

  // For the next request; "" when there is no token.
  [[nodiscard]] std::string header() const;

  // The server has answered 401 or 403 to a request that carried `used`. True: there is another token now.
  // Errc::denied: none can be had, and why.
  async::Task<Result<bool>> challenged(unsigned status, std::string challenge, std::string used,
                                       std::chrono::steady_clock::time_point until);

 private:
  using Time = std::chrono::steady_clock::time_point;
  // What we are to one authorization server. It is worth nothing to another.
  struct Registration {
    std::string issuer;
    std::string client_id;
    std::string client_secret;
    std::string method;  // of authenticating at the token endpoint; "": as the server prefers
  };

  async::Task<Result<>> obtain(OAuthChallenge challenge, Time until);
  // Which authorization server the resource trusts, and what that one says of itself.
  async::Task<Result<>> find_resource(std::string place, Time until);
  async::Task<Result<>> find_issuer(Time until);
  async::Task<Result<>> grant_to_client(Time until);
  async::Task<Result<>> grant_by_code(Time until);
  async::Task<Result<>> register_client(Time until);
  async::Task<Result<>> ask_token(OAuthForm form, Time until);
  [[nodiscard]] bool knows_client_grant() const;
  [[nodiscard]] std::string scope() const;
  [[nodiscard]] std::string method() const;

  std::shared_ptr<const Environment> environment_;
  std::shared_ptr<const ServerConfig> config_;
  outbound::Url server_;
  OAuthFetch fetch_;
  ResourceMetadata resource_;
  IssuerMetadata issuer_;
  std::optional<Registration> registration_;
  std::set<std::string> scopes_;  // asked for so far
  std::string token_;
  std::string refresh_token_;
  std::string refresh_issuer_;
  int attempts_ = 0;  // in a short time
  Time last_attempt_;
  bool busy_ = false;  // somebody is getting one
  async::Signal done_;
};

}  // namespace cove::mcp::client
