#include "http/request_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/text.hpp"
#include "http/cors.hpp"
#include "http/encoding.hpp"
#include "http/gate.hpp"

namespace cove::http {
namespace {

// The answer to missing, wrong or insufficient credentials.
Response keep_out(Verdict verdict, const std::string& challenge) {
  const bool known = verdict == Verdict::out_of_scope;
  auto response = known ? error_response(403, "denied", "the token lacks a required scope")
                        : error_response(401, "unauthorized", "a valid key is needed");
  std::string parameters = known ? "error=\"insufficient_scope\"" : "";
  if (!challenge.empty()) parameters += (parameters.empty() ? "" : ", ") + challenge;
  response.headers.emplace_back("WWW-Authenticate", parameters.empty() ? "Bearer" : "Bearer " + parameters);
  return response;
}

// True for a program on this machine. What a local proxy forwards also comes from this machine, and names its client.
bool comes_from_here(const Peer& peer, const Request& request) {
  constexpr std::string_view kProxyHeaders[] = {"Forwarded",         "X-Forwarded-For", "X-Forwarded-Host",
                                                "X-Forwarded-Proto", "X-Real-IP",       "Via"};
  return peer.loopback &&
         std::ranges::none_of(kProxyHeaders, [&](std::string_view name) { return !request.header_all(name).empty(); });
}

// The scope that the client names: by a header, or as the user of Basic credentials.
Result<std::string> named_scope(const std::string& header, const std::string& user, const Request& request) {
  const auto headers = request.header_all(header);
  if (headers.size() > 1) return fail(Errc::invalid, fmt::format("there is more than one {}", header));
  auto scope = headers.empty() ? user : std::string(headers.front());
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\x7f'; };
  if (!valid_utf8(scope) || std::ranges::any_of(scope, control)) {
    return fail(Errc::invalid, fmt::format("{} is not UTF-8 or has a control byte",
                                           headers.empty() ? "the user of Authorization" : header));
  }
  return scope;
}

// Fills in the request's scope. That of the listener counts, and nobody learns there of any other.
std::optional<Response> find_scope(const ServerOptions& options, const Binding* binding, const std::string& user,
                                   Request& request) {
  auto named = named_scope(options.scope_header, user, request);
  if (!named) return error_response(400, "invalid", named.error().message);
  if (binding == nullptr) {
    request.scope = std::move(*named);
    return std::nullopt;
  }
  const auto& scope = named->empty() ? binding->scope : *named;
  const bool owner = binding->tenant.empty() || !request.admitted || request.principal.tenant == binding->tenant;
  if (scope != binding->scope || !owner) return error_response(404, "not_found", options.unknown_scope(scope));
  request.scope = scope;
  return std::nullopt;
}

}  // namespace

Response response_of(const Refusal& refusal) {
  return error_response(refusal.status, refusal.code, refusal.sentence);
}

RequestCheck check_request(ServerShared& shared, const ServerOptions& options, const Peer& peer, const Binding* binding,
                           Head& head) {
  RequestCheck check;
  const auto refuse = [&check](Response response) {
    check.refusal = std::move(response);
    return std::move(check);
  };
  auto& request = head.request;
  auto found = shared.router.find(request.method, request.path, binding == nullptr ? Reach::all : Reach::scoped);
  auto* match = std::get_if<Router::Found>(&found);

  const Gate gate{.check_host = options.check_host,
                  .allowed_hosts = options.allowed_hosts,
                  .allowed_origins = options.allowed_origins,
                  .local_address = peer.local_address,
                  .local_port = peer.local_port};
  const bool navigable = match != nullptr && match->route->options.navigable;
  if (auto refusal = check_gate(gate, head, navigable ? Navigation::allowed : Navigation::refused))
    return refuse(response_of(*refusal));
  check.page = page_origin(request, options.allowed_origins);
  if (auto answer = preflight_answer(request, check.page)) return refuse(std::move(*answer));
  if (const auto* malformed = std::get_if<Router::Malformed>(&found)) {
    return refuse(error_response(400, "invalid", malformed->sentence));
  }

  // A client without a key learns nothing, not even which routes there are.
  const auto access = match == nullptr ? Access::key : match->route->options.access;
  check.keyed = access == Access::key || (access == Access::key_or_loopback && !comes_from_here(peer, request));
  KeyPlaces places{.authorization = request.header_all("Authorization"),
                   .api_key = request.header_all("X-API-Key"),
                   .prefix = head.key};
  if (match != nullptr && match->route->options.query_token) places.query_tokens = request.query_all("token");
  auto credentials = parse_credentials(places);
  if (check.keyed) {
    auto decision = authenticate(shared.authenticator, credentials);
    if (decision.verdict != Verdict::allowed) {
      const bool counted = decision.verdict == Verdict::wrong;
      if (counted && !shared.throttle.admit(peer.address, std::chrono::steady_clock::now())) {
        auto response = error_response(429, "quota", "too many wrong keys");
        response.headers.emplace_back("Retry-After", "1");
        return refuse(std::move(response));
      }
      return refuse(keep_out(decision.verdict, options.challenge));
    }
    if (decision.key == credentials.user) credentials.user.clear();
    request.principal = std::move(decision.principal);
    request.admitted = true;
  }
  if (const auto* moved = std::get_if<Router::Moved>(&found)) {
    Response response{.status = 307, .content_type = ""};
    const auto query = request.target.find('?');
    response.headers.emplace_back("Location", (head.key.empty() ? "" : "/" + head.key) + moved->path +
                                                  (query == std::string::npos ? "" : request.target.substr(query)));
    return refuse(std::move(response));
  }
  if (const auto* not_allowed = std::get_if<Router::NotAllowed>(&found)) {
    auto response = error_response(405, "method_not_allowed", "this method is not allowed here");
    response.headers.emplace_back("Allow", not_allowed->allow);
    return refuse(std::move(response));
  }
  if (match == nullptr) return refuse(error_response(404, "not_found", "there is no such route"));
  if (match->route->options.scoped) {
    if (auto refusal = find_scope(options, binding, credentials.user, request)) return refuse(std::move(*refusal));
  }

  for (const auto& encoding : request.header_all("Content-Encoding")) {
    if (!encoding.empty() && !equals_ignoring_case(encoding, "identity")) {
      return refuse(
          error_response(415, "unsupported", "Content-Encoding is not supported: send the body uncompressed"));
    }
  }
  if (head.content_length > match->route->options.body_limit) {
    return refuse(error_response(413, "too_large", "the body is larger than this route accepts"));
  }
  request.principal.door = match->route->options.door;
  request.principal.client = one_line(request.header("User-Agent"), kClientName);
  check.route = match->route;
  request.params = std::move(match->params);
  return check;
}

}  // namespace cove::http
