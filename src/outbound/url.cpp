#include "outbound/url.hpp"

#include <algorithm>
#include <boost/url/parse.hpp>
#include <boost/url/url.hpp>

namespace cove::outbound {
namespace {

namespace urls = boost::urls;

constexpr std::size_t kMaxUrl = 8192;
constexpr std::size_t kMaxHost = 253;
constexpr std::size_t kMaxLabel = 63;

bool valid_label(std::string_view label) {
  return !label.empty() && label.size() <= kMaxLabel && std::ranges::all_of(label, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

// The system's resolver reads names such as "127.1" and "0x7f.1" as addresses: one whose last label is a number is
// none.
bool numeric(std::string_view label) {
  const auto digits = label.starts_with("0x") ? label.substr(2) : label;
  const bool hex = label.starts_with("0x");
  return std::ranges::all_of(digits,
                             [hex](char c) { return (c >= '0' && c <= '9') || (hex && ((c >= 'a' && c <= 'f'))); });
}

Result<std::string> host_name(std::string_view encoded) {
  std::string name(encoded);
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (name.ends_with('.')) name.pop_back();
  if (name.empty()) return fail(Errc::invalid, "it has no host");
  if (name.size() > kMaxHost) return fail(Errc::invalid, "the host is too long");
  std::string_view rest = name;
  std::string_view label;
  while (true) {
    const auto dot = rest.find('.');
    label = rest.substr(0, dot);
    if (!valid_label(label))
      return fail(Errc::invalid, "the host is not a name of letters, digits, '-' and '_' between dots");
    if (dot == std::string_view::npos) break;
    rest.remove_prefix(dot + 1);
  }
  if (numeric(label)) return fail(Errc::invalid, "the host is neither a name nor an address in the usual form");
  return name;
}

Result<std::string> host_of(const urls::url_view& url) {
  switch (url.host_type()) {
    case urls::host_type::ipv4:
      return std::string(url.host_ipv4_address().to_string());
    case urls::host_type::ipv6:
      return std::string(url.host_ipv6_address().to_string());
    case urls::host_type::name:
      return host_name(url.encoded_host());
    default:
      return fail(Errc::invalid, "it has no host");
  }
}

Result<Url> checked(const urls::url_view& parsed) {
  const bool http = parsed.scheme_id() == urls::scheme::http;
  if (!http && parsed.scheme_id() != urls::scheme::https) return fail(Errc::invalid, "it must be http:// or https://");
  if (parsed.has_userinfo()) return fail(Errc::invalid, "it must not have a user or password");
  Url url;
  url.tls = !http;
  COVE_TRY(url.host, host_of(parsed));
  url.port = http ? 80 : 443;
  if (!parsed.port().empty()) url.port = parsed.port_number();
  if (url.port == 0) return fail(Errc::invalid, "the port must be 1 to 65535");
  url.target = std::string(parsed.encoded_path());
  // "http://10.0.0.1.example.org" is read as an address and a path that begins with a dot.
  if (!url.target.empty() && url.target.front() != '/')
    return fail(Errc::invalid, "the host is neither a name nor an address in the usual form");
  if (url.target.empty()) url.target = "/";
  if (parsed.has_query()) url.target += "?" + std::string(parsed.encoded_query());
  return url;
}

tl::unexpected<Error> wrong(std::string_view text, std::string_view why) {
  return fail(Errc::invalid, fmt::format("'{}' is not a usable URL: {}", text.substr(0, 200), why));
}

}  // namespace

std::string Url::authority() const {
  const auto name = literal_v6() ? fmt::format("[{}]", host) : host;
  return port == (tls ? 443 : 80) ? name : fmt::format("{}:{}", name, port);
}

std::string Url::text() const {
  return fmt::format("{}://{}{}", tls ? "https" : "http", authority(), target);
}

bool Url::same_origin(const Url& other) const {
  return tls == other.tls && host == other.host && port == other.port;
}

Result<Url> parse_url(std::string_view text) {
  if (text.size() > kMaxUrl) return wrong(text, "it is too long");
  const auto parsed = urls::parse_absolute_uri(text.substr(0, text.find('#')));
  if (!parsed) return wrong(text, "it is malformed");
  auto url = checked(*parsed);
  if (!url) return wrong(text, url.error().message);
  return url;
}

Result<Url> resolve_url(const Url& base, std::string_view reference) {
  if (reference.size() > kMaxUrl) return wrong(reference, "it is too long");
  const auto parsed = urls::parse_uri_reference(reference.substr(0, reference.find('#')));
  if (!parsed) return wrong(reference, "it is malformed");
  urls::url joined;
  const auto from = base.text();
  if (!urls::resolve(urls::url_view(from), *parsed, joined)) return wrong(reference, "it is malformed");
  auto url = checked(joined);
  if (!url) return wrong(reference, url.error().message);
  return url;
}

}  // namespace cove::outbound
