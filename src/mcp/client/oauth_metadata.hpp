#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "mcp/client/client.hpp"
#include "outbound/client.hpp"
#include "outbound/url.hpp"

namespace cove::mcp::client {

// What a server says with a 401 or 403 (WWW-Authenticate, scheme Bearer).
struct OAuthChallenge {
  std::string resource_metadata;  // an address; "" when it names none
  std::string scope;
  std::string error;
};
OAuthChallenge read_challenge(std::string_view header);

// What a protected resource says of itself (RFC 9728).
struct ResourceMetadata {
  std::string resource;              // to be named as it is written
  std::vector<std::string> servers;  // the authorization servers it trusts
  std::vector<std::string> scopes;
};
// Errc::denied: it speaks of another resource than `server`.
Result<ResourceMetadata> read_resource(const boost::json::object& document, const outbound::Url& server);

// What an authorization server says of itself (RFC 8414).
struct IssuerMetadata {
  std::string issuer;
  std::string authorization_endpoint;
  std::string token_endpoint;
  std::string registration_endpoint;
  std::vector<std::string> scopes;
  std::vector<std::string> methods;     // of authenticating at the token endpoint
  std::vector<std::string> challenges;  // of PKCE
  std::vector<std::string> grants;
  bool documented = false;   // there is a document; else these are the places of old
  bool says_issuer = false;  // an answer to a browser names the issuer
  bool reads_client_metadata = false;
};
// Errc::denied: it is of another issuer than the one that was asked for.
Result<IssuerMetadata> read_issuer(const boost::json::object& document, std::string_view issuer);

// Where the documents may stand, in the order in which they are looked for.
std::vector<std::string> resource_places(const outbound::Url& server);
std::vector<std::string> issuer_places(const outbound::Url& issuer);

using OAuthForm = std::vector<std::pair<std::string, std::string>>;
std::string form_text(const OAuthForm& form);
// The members of an address's query.
OAuthForm query_of(std::string_view address);
std::set<std::string> scopes_of(std::string_view text);

// Small requests to authorization servers, whose addresses a server has named: none goes where the environment's reach
// does not, and no redirect is followed.
class OAuthFetch {
 public:
  explicit OAuthFetch(std::shared_ptr<const Environment> environment) : environment_(std::move(environment)) {}

  // nullopt: there is no JSON object there.
  async::Task<Result<std::optional<boost::json::object>>> get(std::string address,
                                                              std::chrono::steady_clock::time_point until) const;
  struct Answer {
    unsigned status = 0;
    boost::json::object body;
  };
  async::Task<Result<Answer>> post(std::string address, outbound::Headers headers, std::string body,
                                   std::chrono::steady_clock::time_point until) const;

 private:
  async::Task<Result<outbound::Response>> send(outbound::Request request, std::string address) const;

  std::shared_ptr<const Environment> environment_;
};

}  // namespace cove::mcp::client
