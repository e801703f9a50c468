#include "mcp/client/authorization.hpp"

#include <algorithm>

#include "base/random_name.hpp"
#include "base/text.hpp"
#include "json/fields.hpp"
#include "mcp/client/client_assertion.hpp"
#include "mcp/client/transport.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr int kMaxAttempts = 3;
constexpr std::chrono::seconds kAttemptsWithin{60};

bool among(const std::vector<std::string>& list, std::string_view one) {
  return std::ranges::find(list, one) != list.end();
}

std::string value_in(const OAuthForm& form, std::string_view name) {
  const auto found = std::ranges::find_if(form, [name](const auto& one) { return one.first == name; });
  return found == form.end() ? std::string() : found->second;
}

tl::unexpected<Error> denied(std::string why) {
  return fail(Errc::denied, std::move(why));
}

// Errors on the way are about the way; what matters is that there is no token.
Error without_token(const Error& why) {
  return Error{.code = Errc::denied,
               .message = "the server wants a token, and none can be had: " + why.message,
               .sys_errno = why.sys_errno};
}

}  // namespace

Authorization::Authorization(std::shared_ptr<const Environment> environment, std::shared_ptr<const ServerConfig> config,
                             outbound::Url server)
    : environment_(std::move(environment)),
      config_(std::move(config)),
      server_(std::move(server)),
      fetch_(environment_),
      done_(environment_->executor) {}

std::string Authorization::header() const {
  return token_.empty() ? std::string() : "Bearer " + token_;
}

std::string Authorization::scope() const {
  std::string out;
  for (const auto& one : scopes_) out += (out.empty() ? "" : " ") + one;
  return out;
}

Task<Result<bool>> Authorization::challenged(unsigned status, std::string challenge, std::string used, Time until) {
  while (busy_) co_await done_.wait();
  if (!token_.empty() && header() != used) co_return true;
  const auto said = read_challenge(challenge);
  if (status == 403 && said.error != "insufficient_scope") co_return false;
  if (!config_->credentials && !environment_->authorize) co_return false;
  if (Clock::now() - last_attempt_ > kAttemptsWithin) attempts_ = 0;
  if (++attempts_ > kMaxAttempts)
    co_return denied(fmt::format("the server took none of {} tokens that were got for it", kMaxAttempts));
  struct Busy {
    Authorization& own;
    ~Busy() {
      own.busy_ = false;
      own.done_.notify_all();
    }
  };
  busy_ = true;
  const Busy busy{*this};
  const auto obtained = co_await obtain(said, until);
  last_attempt_ = Clock::now();
  if (!obtained) co_return tl::unexpected<Error>(without_token(obtained.error()));
  co_return true;
}

Task<Result<>> Authorization::obtain(OAuthChallenge challenge, Time until) {
  token_.clear();
  auto found = co_await find_resource(challenge.resource_metadata, until);
  if (!found) co_return found;
  found = co_await find_issuer(until);
  if (!found) co_return found;
  auto wanted = scopes_of(challenge.scope);
  if (wanted.empty()) wanted.insert(resource_.scopes.begin(), resource_.scopes.end());
  if (wanted.empty() && config_->credentials) wanted = scopes_of(config_->credentials->scope);
  const bool more = !std::ranges::includes(scopes_, wanted);
  scopes_.insert(wanted.begin(), wanted.end());  // what was granted before is asked for again
  if (!refresh_token_.empty() && !more && refresh_issuer_ == issuer_.issuer) {
    OAuthForm form{{"grant_type", "refresh_token"}, {"refresh_token", std::exchange(refresh_token_, {})}};
    const auto refreshed = co_await ask_token(std::move(form), until);
    if (refreshed) co_return refreshed;
  }
  if (knows_client_grant())
    found = co_await grant_to_client(until);
  else
    found = co_await grant_by_code(until);
  co_return found;
}

bool Authorization::knows_client_grant() const {
  if (!config_->credentials) return false;
  return !environment_->authorize || issuer_.grants.empty() || among(issuer_.grants, "client_credentials");
}

Task<Result<>> Authorization::find_resource(std::string place, Time until) {
  resource_ = {};
  std::vector<std::string> places;
  if (!place.empty())
    places.push_back(std::move(place));
  else
    places = resource_places(server_);
  for (const auto& one : places) {
    const auto document = co_await fetch_.get(one, until);
    if (!document) co_return tl::unexpected<Error>(document.error());
    if (!*document) continue;
    auto read = read_resource(**document, server_);
    if (!read) co_return tl::unexpected<Error>(read.error());
    resource_ = std::move(*read);
    break;
  }
  co_return Result<>();
}

Task<Result<>> Authorization::find_issuer(Time until) {
  auto origin = server_;
  origin.target = "/";
  auto root = origin.text();
  root.pop_back();
  // Before there was metadata of resources, the server was its own authorization server.
  const auto issuer = resource_.servers.empty() ? root : resource_.servers.front();
  const auto url = outbound::parse_url(issuer);
  if (!url) co_return tl::unexpected<Error>(url.error());
  issuer_ = {};
  for (const auto& place : issuer_places(*url)) {
    const auto document = co_await fetch_.get(place, until);
    if (!document) co_return tl::unexpected<Error>(document.error());
    if (!*document) continue;
    auto read = read_issuer(**document, issuer);
    if (!read) co_return tl::unexpected<Error>(read.error());
    issuer_ = std::move(*read);
    break;
  }
  if (!issuer_.documented) {
    if (!resource_.servers.empty())
      co_return denied(fmt::format("the authorization server {} says nothing of itself", shown(issuer, 200)));
    issuer_.issuer = root;
    issuer_.authorization_endpoint = root + "/authorize";
    issuer_.token_endpoint = root + "/token";
    issuer_.registration_endpoint = root + "/register";
  }
  if (issuer_.token_endpoint.empty())
    co_return denied(fmt::format("the authorization server {} has no token endpoint", shown(issuer, 200)));
  // What we are to one issuer is nothing to another.
  if (registration_ && registration_->issuer != issuer_.issuer) registration_.reset();
  co_return Result<>();
}

std::string Authorization::method() const {
  if (registration_ && !registration_->method.empty()) return registration_->method;
  if (!registration_ || registration_->client_secret.empty()) return "none";
  if (issuer_.methods.empty() || among(issuer_.methods, "client_secret_basic")) return "client_secret_basic";
  return among(issuer_.methods, "client_secret_post") ? "client_secret_post" : "none";
}

Task<Result<>> Authorization::ask_token(OAuthForm form, Time until) {
  outbound::Headers headers{{"Content-Type", "application/x-www-form-urlencoded"}};
  if (!resource_.resource.empty()) form.emplace_back("resource", resource_.resource);
  const auto& client = *registration_;
  if (config_->credentials && !config_->credentials->private_key.empty()) {
    const auto assertion = client_assertion(*config_->credentials, issuer_.issuer);
    if (!assertion) co_return tl::unexpected<Error>(assertion.error());
    form.emplace_back("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    form.emplace_back("client_assertion", *assertion);
  } else if (method() == "client_secret_basic") {
    // Each is encoded as in a form before they are joined (RFC 6749 section 2.3.1).
    const auto coded = [](const std::string& text) { return form_text({{"", text}}).substr(1); };
    headers.emplace_back("Authorization",
                         "Basic " + base64(coded(client.client_id) + ":" + coded(client.client_secret)));
  } else {
    form.emplace_back("client_id", client.client_id);
    if (method() == "client_secret_post") form.emplace_back("client_secret", client.client_secret);
  }
  auto body = form_text(form);
  const auto answer = co_await fetch_.post(issuer_.token_endpoint, std::move(headers), std::move(body), until);
  if (!answer) co_return tl::unexpected<Error>(answer.error());
  auto token = cove::json::text_of(answer->body, "access_token");
  if (answer->status != 200 || token.empty())
    co_return denied(fmt::format("the authorization server refuses (HTTP {}): {} {}", answer->status,
                                 shown(cove::json::text_of(answer->body, "error"), 100),
                                 shown(cove::json::text_of(answer->body, "error_description"))));
  if (!std::ranges::all_of(token, [](char c) { return c > 0x20 && c < 0x7f; }))
    co_return denied("the authorization server gave a token that no header can carry");
  auto type = cove::json::text_of(answer->body, "token_type");
  std::ranges::transform(type, type.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (!type.empty() && type != "bearer")
    co_return denied(fmt::format("the authorization server gave a token of the type {}, not Bearer", shown(type, 50)));
  token_ = std::move(token);
  refresh_token_ = cove::json::text_of(answer->body, "refresh_token");
  refresh_issuer_ = issuer_.issuer;
  co_return Result<>();
}

Task<Result<>> Authorization::grant_to_client(Time until) {
  const auto& own = *config_->credentials;
  registration_ = Registration{
      .issuer = issuer_.issuer, .client_id = own.client_id, .client_secret = own.client_secret, .method = {}};
  OAuthForm form{{"grant_type", "client_credentials"}};
  if (!scopes_.empty()) form.emplace_back("scope", scope());
  co_return co_await ask_token(std::move(form), until);
}

Task<Result<>> Authorization::register_client(Time until) {
  if (registration_) co_return Result<>();
  Registration made{.issuer = issuer_.issuer, .client_id = {}, .client_secret = {}, .method = {}};
  if (config_->credentials) {
    made.client_id = config_->credentials->client_id;
    made.client_secret = config_->credentials->client_secret;
  } else if (issuer_.reads_client_metadata && !environment_->client_metadata_url.empty()) {
    made.client_id = environment_->client_metadata_url;
  } else if (!issuer_.registration_endpoint.empty()) {
    const json::object wanted{{"client_name", environment_->name},
                              {"redirect_uris", json::array{environment_->redirect_uri}},
                              {"grant_types", json::array{"authorization_code", "refresh_token"}},
                              {"response_types", json::array{"code"}},
                              {"application_type", "native"}};
    outbound::Headers headers{{"Content-Type", "application/json"}};
    const auto answer =
        co_await fetch_.post(issuer_.registration_endpoint, std::move(headers), json::serialize(wanted), until);
    if (!answer) co_return tl::unexpected<Error>(answer.error());
    made.client_id = cove::json::text_of(answer->body, "client_id");
    made.client_secret = cove::json::text_of(answer->body, "client_secret");
    made.method = cove::json::text_of(answer->body, "token_endpoint_auth_method");
    if (made.client_id.empty())
      co_return denied(fmt::format("the authorization server registers no clients (HTTP {})", answer->status));
  } else {
    co_return denied("the authorization server registers no clients; give the client_id it knows in auth");
  }
  registration_ = std::move(made);
  co_return Result<>();
}

Task<Result<>> Authorization::grant_by_code(Time until) {
  if (!environment_->authorize)
    co_return denied("the authorization server wants a person's consent; give credentials of a client in auth");
  if (issuer_.documented && !among(issuer_.challenges, "S256"))
    co_return denied("the authorization server does not know S256 of PKCE");
  const auto endpoint = outbound::parse_url(issuer_.authorization_endpoint);
  if (!endpoint) co_return tl::unexpected<Error>(endpoint.error());
  const auto registered = co_await register_client(until);
  if (!registered) co_return registered;
  const auto verifier = random_name("") + random_name("");
  const auto nonce = random_name("");
  OAuthForm query{{"response_type", "code"},
                  {"client_id", registration_->client_id},
                  {"redirect_uri", environment_->redirect_uri},
                  {"code_challenge", pkce_challenge(verifier)},
                  {"code_challenge_method", "S256"},
                  {"state", nonce}};
  if (!scopes_.empty()) query.emplace_back("scope", scope());
  if (!resource_.resource.empty()) query.emplace_back("resource", resource_.resource);
  const auto separator = endpoint->target.find('?') == std::string::npos ? "?" : "&";
  auto address = endpoint->text() + separator + form_text(query);
  const auto landed = co_await environment_->authorize(std::move(address));
  if (!landed) co_return tl::unexpected<Error>(landed.error());
  const auto given = query_of(*landed);
  const auto issuer = value_in(given, "iss");
  // Whose answer it is (RFC 9207): compared as it is written.
  if ((issuer_.says_issuer && issuer.empty()) || (!issuer.empty() && issuer != issuer_.issuer))
    co_return denied(fmt::format("the answer to the consent page is not of the authorization server {}",
                                 shown(issuer_.issuer, 200)));
  if (value_in(given, "state") != nonce) co_return denied("the answer to the consent page is not to our question");
  if (const auto error = value_in(given, "error"); !error.empty())
    co_return denied(fmt::format("consent was refused: {}", shown(error, 100)));
  OAuthForm form{{"grant_type", "authorization_code"},
                 {"code", value_in(given, "code")},
                 {"redirect_uri", environment_->redirect_uri},
                 {"code_verifier", verifier}};
  co_return co_await ask_token(std::move(form), until);
}

}  // namespace cove::mcp::client
