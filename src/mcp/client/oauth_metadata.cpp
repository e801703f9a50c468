#include "mcp/client/oauth_metadata.hpp"

#include <algorithm>

#include "json/fields.hpp"
#include "mcp/client/transport.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;

constexpr std::uint64_t kMaxDocument = 256 * 1024;
constexpr std::size_t kMaxListed = 256;
constexpr std::size_t kDocumentDepth = 32;
constexpr std::string_view kHex = "0123456789ABCDEF";

std::string encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    if (plain)
      out += c;
    else
      out += {'%', kHex[byte >> 4U], kHex[byte & 15U]};
  }
  return out;
}

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto high =
        text[i] == '%' && i + 2 < text.size() ? kHex.find(static_cast<char>(std::toupper(text[i + 1]))) : kHex.npos;
    const auto low = high != kHex.npos ? kHex.find(static_cast<char>(std::toupper(text[i + 2]))) : kHex.npos;
    if (low != kHex.npos) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::vector<std::string> texts_in(const json::object& object, std::string_view name) {
  std::vector<std::string> out;
  const auto* list = object.if_contains(name);
  if (list == nullptr || !list->is_array()) return out;
  for (const auto& one : list->as_array()) {
    if (one.is_string() && out.size() < kMaxListed) out.emplace_back(one.as_string());
  }
  return out;
}

std::string_view path_of(const outbound::Url& url) {
  const auto path = std::string_view(url.target).substr(0, url.target.find('?'));
  return path == "/" ? std::string_view() : path;
}

std::string at_origin(const outbound::Url& url, std::string_view path) {
  auto out = url;
  out.target = path;
  return out.text();
}

// One that was left out of a document is no reason to refuse; one that differs is.
bool same_but_for_a_slash(std::string_view a, std::string_view b) {
  if (a.ends_with('/')) a.remove_suffix(1);
  if (b.ends_with('/')) b.remove_suffix(1);
  return a == b;
}

}  // namespace

OAuthChallenge read_challenge(std::string_view header) {
  OAuthChallenge out;
  // name=value or name="value", wherever they stand; names of other schemes do not matter here.
  for (std::size_t at = 0; (at = header.find('=', at)) != header.npos;) {
    auto begin = at;
    while (begin > 0 && (std::isalnum(static_cast<unsigned char>(header[begin - 1])) != 0 || header[begin - 1] == '_'))
      --begin;
    const auto name = header.substr(begin, at - begin);
    std::string value;
    ++at;
    if (at < header.size() && header[at] == '"') {
      for (++at; at < header.size() && header[at] != '"'; ++at) {
        if (header[at] == '\\' && at + 1 < header.size()) ++at;
        value += header[at];
      }
      ++at;
    } else {
      while (at < header.size() && header[at] != ',' && header[at] != ' ') value += header[at++];
    }
    if (name == "resource_metadata")
      out.resource_metadata = std::move(value);
    else if (name == "scope")
      out.scope = std::move(value);
    else if (name == "error")
      out.error = std::move(value);
  }
  return out;
}

Result<ResourceMetadata> read_resource(const json::object& document, const outbound::Url& server) {
  ResourceMetadata out;
  out.resource = cove::json::text_of(document, "resource");
  out.servers = texts_in(document, "authorization_servers");
  out.scopes = texts_in(document, "scopes_supported");
  if (out.resource.empty()) return out;
  const auto resource = outbound::parse_url(out.resource);
  const auto wrong =
      fail(Errc::denied, fmt::format("the server's metadata is about another resource ({}), not about {}",
                                     shown(out.resource, 200), server.text()));
  if (!resource || !resource->same_origin(server)) return wrong;
  const auto inner = path_of(server);
  const auto outer = path_of(*resource);
  if (!inner.starts_with(outer)) return wrong;
  if (inner.size() > outer.size() && !outer.empty() && !outer.ends_with('/') && inner[outer.size()] != '/')
    return wrong;
  return out;
}

Result<IssuerMetadata> read_issuer(const json::object& document, std::string_view issuer) {
  IssuerMetadata out;
  out.issuer = cove::json::text_of(document, "issuer");
  if (out.issuer != issuer && !(out.issuer.empty() || same_but_for_a_slash(out.issuer, issuer)))
    return fail(Errc::denied,
                fmt::format("the authorization server {} calls itself {}", shown(issuer, 200), shown(out.issuer, 200)));
  if (out.issuer.empty()) out.issuer = issuer;
  out.authorization_endpoint = cove::json::text_of(document, "authorization_endpoint");
  out.token_endpoint = cove::json::text_of(document, "token_endpoint");
  out.registration_endpoint = cove::json::text_of(document, "registration_endpoint");
  out.scopes = texts_in(document, "scopes_supported");
  out.methods = texts_in(document, "token_endpoint_auth_methods_supported");
  out.grants = texts_in(document, "grant_types_supported");
  out.documented = true;
  out.challenges = texts_in(document, "code_challenge_methods_supported");
  const auto flag = [&document](std::string_view name) {
    const auto* value = document.if_contains(name);
    return value != nullptr && value->is_bool() && value->as_bool();
  };
  out.says_issuer = flag("authorization_response_iss_parameter_supported");
  out.reads_client_metadata = flag("client_id_metadata_document_supported");
  return out;
}

std::vector<std::string> resource_places(const outbound::Url& server) {
  constexpr std::string_view kPlace = "/.well-known/oauth-protected-resource";
  std::vector<std::string> out;
  if (const auto path = path_of(server); !path.empty())
    out.push_back(at_origin(server, fmt::format("{}{}", kPlace, path)));
  out.push_back(at_origin(server, kPlace));
  return out;
}

std::vector<std::string> issuer_places(const outbound::Url& issuer) {
  auto path = path_of(issuer);
  if (path.ends_with('/')) path.remove_suffix(1);
  constexpr std::string_view kOAuth = "/.well-known/oauth-authorization-server";
  constexpr std::string_view kOpenId = "/.well-known/openid-configuration";
  std::vector<std::string> out{at_origin(issuer, fmt::format("{}{}", kOAuth, path)),
                               at_origin(issuer, fmt::format("{}{}", kOpenId, path))};
  if (!path.empty()) out.push_back(at_origin(issuer, fmt::format("{}{}", path, kOpenId)));
  return out;
}

std::string form_text(const OAuthForm& form) {
  std::string out;
  for (const auto& [name, value] : form) out += (out.empty() ? "" : "&") + encoded(name) + "=" + encoded(value);
  return out;
}

OAuthForm query_of(std::string_view address) {
  OAuthForm out;
  const auto mark = address.find('?');
  if (mark == address.npos) return out;
  auto rest = address.substr(mark + 1);
  rest = rest.substr(0, rest.find('#'));
  while (!rest.empty()) {
    const auto end = rest.find('&');
    const auto one = rest.substr(0, end);
    const auto equals = one.find('=');
    out.emplace_back(decoded(one.substr(0, equals)),
                     equals == one.npos ? std::string() : decoded(one.substr(equals + 1)));
    if (end == rest.npos) break;
    rest.remove_prefix(end + 1);
  }
  return out;
}

std::set<std::string> scopes_of(std::string_view text) {
  std::set<std::string> out;
  while (!text.empty()) {
    const auto end = text.find(' ');
    if (end != 0) out.emplace(text.substr(0, end));
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

Task<Result<outbound::Response>> OAuthFetch::send(outbound::Request request, std::string address) const {
  const auto environment = environment_;
  auto url = outbound::parse_url(address);
  if (!url) co_return tl::unexpected<Error>(url.error());
  request.url = std::move(*url);
  request.reach = environment->reach;
  request.tenant = environment->tenant;
  request.max_body_bytes = kMaxDocument;
  request.headers.emplace_back("Accept", "application/json");
  co_return co_await environment->http->send(std::move(request));
}

Task<Result<std::optional<json::object>>> OAuthFetch::get(std::string address,
                                                          std::chrono::steady_clock::time_point until) const {
  outbound::Request request{.url = {}, .until = until};
  auto response = co_await send(std::move(request), std::move(address));
  if (!response) co_return tl::unexpected<Error>(response.error());
  if (response->head.status != 200) co_return std::optional<json::object>();
  auto value = parse_text(response->body, kDocumentDepth);
  if (!value || !value->is_object()) co_return std::optional<json::object>();
  co_return std::optional(std::move(value->as_object()));
}

Task<Result<OAuthFetch::Answer>> OAuthFetch::post(std::string address, outbound::Headers headers, std::string body,
                                                  std::chrono::steady_clock::time_point until) const {
  outbound::Request request{.method = "POST", .url = {}, .until = until};
  request.headers = std::move(headers);
  request.body = std::move(body);
  auto response = co_await send(std::move(request), address);
  if (!response) co_return tl::unexpected<Error>(response.error());
  Answer answer{.status = response->head.status, .body = {}};
  auto value = parse_text(response->body, kDocumentDepth);
  if (value && value->is_object()) answer.body = std::move(value->as_object());
  co_return answer;
}

}  // namespace cove::mcp::client
