#include "egress/proxy_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/text.hpp"
#include "egress/host_name.hpp"
#include "http/encoding.hpp"

namespace cove::egress {
namespace {

using http::equals_ignoring_case;

ProxyRefusal bad(std::string sentence, unsigned status = 400) {
  return {.status = status, .sentence = std::move(sentence)};
}

bool is_token_text(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

struct Lines {
  std::string_view first;
  std::vector<HttpField> fields;
};

std::variant<Lines, ProxyRefusal> split(std::string_view head) {
  Lines lines;
  const auto end = head.find("\r\n");
  if (end == std::string_view::npos) return bad("the head is malformed");
  lines.first = head.substr(0, end);
  auto rest = head.substr(end + 2);
  while (!rest.starts_with("\r\n")) {
    const auto line_end = rest.find("\r\n");
    if (line_end == std::string_view::npos) return bad("the head is malformed");
    const auto line = rest.substr(0, line_end);
    rest.remove_prefix(line_end + 2);
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || !is_token_text(line.substr(0, colon)))
      return bad("a header line is malformed");
    lines.fields.push_back(
        {.name = std::string(line.substr(0, colon)), .value = std::string(trimmed(line.substr(colon + 1)))});
  }
  return lines;
}

std::vector<std::string> values_of(const std::vector<HttpField>& fields, std::string_view name) {
  std::vector<std::string> values;
  for (const auto& field : fields) {
    if (equals_ignoring_case(field.name, name)) values.push_back(field.value);
  }
  return values;
}

// One way to write each: two lengths, a length beside chunks, and codings before "chunked" are refused.
template <typename Head>
std::optional<ProxyRefusal> read_framing(const std::vector<HttpField>& fields, Head& head) {
  const auto lengths = values_of(fields, "content-length");
  const auto codings = values_of(fields, "transfer-encoding");
  if (lengths.size() + codings.size() > 1)
    return bad("there must be one Content-Length or one Transfer-Encoding at most");
  if (!codings.empty()) {
    if (!equals_ignoring_case(codings.front(), "chunked"))
      return bad("the only supported Transfer-Encoding is chunked");
    head.chunked = true;
  }
  if (!lengths.empty()) {
    const auto& text = lengths.front();
    const bool digits =
        !text.empty() && text.size() <= 18 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) return bad("Content-Length is not a number");
    std::from_chars(text.data(), text.data() + text.size(), head.content_length);
    head.has_length = true;
  }
  return std::nullopt;
}

// What is about this connection and not about the message (RFC 9110, 7.6.1), and what is written anew.
std::vector<HttpField> end_to_end(const std::vector<HttpField>& fields) {
  constexpr auto kOwn = std::to_array<std::string_view>({"connection", "keep-alive", "proxy-connection",
                                                         "proxy-authorization", "proxy-authenticate", "te", "upgrade",
                                                         "host", "content-length", "transfer-encoding", "trailer"});
  std::vector<std::string> named;
  for (const auto& value : values_of(fields, "connection")) {
    for (std::string_view rest = value; !rest.empty();) named.emplace_back(trimmed(take_until(rest, ',')));
  }
  std::vector<HttpField> kept;
  for (const auto& field : fields) {
    const auto same = [&](std::string_view other) { return equals_ignoring_case(field.name, other); };
    if (!std::ranges::any_of(kOwn, same) && !std::ranges::any_of(named, same)) kept.push_back(field);
  }
  return kept;
}

// host[:port] with nothing else. Whether the host is a name or an address is decided by who goes there.
bool read_authority(std::string_view text, std::string& host, std::uint16_t& port) {
  std::string_view rest;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return false;
    host = text.substr(1, end - 1);
    if (host.find(':') == std::string::npos) return false;
    rest = text.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return false;
  } else {
    const auto colon = std::min(text.find(':'), text.size());
    host = text.substr(0, colon);
    rest = text.substr(colon);
  }
  const bool plain = !host.empty() && std::ranges::all_of(host, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' ||
           c == '_' || c == ':';
  });
  if (!plain) return false;
  if (rest.empty()) return true;
  rest.remove_prefix(1);
  const auto [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
  return failed == std::errc{} && end == rest.data() + rest.size() && port != 0 && !rest.starts_with('0');
}

std::string canonical_or_same(const std::string& host) {
  return canonical_ascii_name(host).value_or(http::to_lower(host));
}

std::string authority_text(const std::string& host, std::uint16_t port, std::uint16_t default_port) {
  const auto name = host.find(':') != std::string::npos ? fmt::format("[{}]", host) : host;
  return port == default_port ? name : fmt::format("{}:{}", name, port);
}

std::optional<ProxyRefusal> read_target(std::string_view target, const std::vector<std::string>& hosts,
                                        std::uint16_t default_port, ProxyRequest& request) {
  const auto printable = [](char c) { return c > ' ' && c < '\x7f' && c != '#'; };
  if (target.empty() || !std::ranges::all_of(target, printable)) return bad("the request target is malformed");
  if (hosts.size() > 1) return bad("there is more than one Host");
  std::string host_name;
  std::uint16_t host_port = default_port;
  if (!hosts.empty() && !read_authority(hosts.front(), host_name, host_port)) return bad("Host is malformed");

  if (request.method == "CONNECT") {
    request.form = ProxyRequest::Form::connect;
    if (!read_authority(target, request.host, request.port) || request.port == 0)
      return bad("CONNECT needs HOST:PORT with a port of 1 to 65535");
    return std::nullopt;
  }
  constexpr std::string_view kScheme = "http://";
  if (target.size() < kScheme.size() || !equals_ignoring_case(target.substr(0, kScheme.size()), kScheme)) {
    if (!target.starts_with('/')) return bad("a proxy takes http:// addresses and CONNECT");
    request.form = ProxyRequest::Form::origin;
    request.host = host_name;
    request.port = host_port;
    request.path = target;
    return std::nullopt;
  }
  request.form = ProxyRequest::Form::absolute;
  target.remove_prefix(kScheme.size());
  const auto end = std::min(target.find_first_of("/?"), target.size());
  request.port = 80;
  if (!read_authority(target.substr(0, end), request.host, request.port))
    return bad("the host of the request target is malformed");
  host_port = 80;
  if (!hosts.empty() && !read_authority(hosts.front(), host_name, host_port)) return bad("Host is malformed");
  if (!hosts.empty() && (canonical_or_same(host_name) != canonical_or_same(request.host) || host_port != request.port))
    return bad("Host is not the host of the request target");
  request.path = target.substr(end);
  if (!request.path.starts_with('/')) request.path.insert(request.path.begin(), '/');
  return std::nullopt;
}

}  // namespace

std::variant<ProxyRequest, ProxyRefusal> parse_proxy_request(std::string_view head, std::uint16_t default_port) {
  const auto lines = split(head);
  if (const auto* refused = std::get_if<ProxyRefusal>(&lines)) return *refused;
  const auto& [first, fields] = std::get<Lines>(lines);
  ProxyRequest request;
  request.default_port = default_port;
  auto rest = first;
  request.method = take_until(rest, ' ');
  const auto target = take_until(rest, ' ');
  if (!is_token_text(request.method)) return bad("the method is malformed");
  if (rest != "HTTP/1.1" && rest != "HTTP/1.0") return bad("this is neither HTTP/1.1 nor HTTP/1.0", 505);
  if (auto refused = read_framing(fields, request)) return *refused;
  if (request.chunked && rest == "HTTP/1.0") return bad("HTTP/1.0 has no Transfer-Encoding");
  if (auto refused = read_target(target, values_of(fields, "host"), default_port, request)) return *refused;
  request.fields = end_to_end(fields);
  return request;
}

std::string encode_request(const ProxyRequest& request, std::span<const HttpField> added) {
  auto text = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.path,
                          authority_text(request.host, request.port, request.default_port));
  for (const auto& field : request.fields) {
    const auto same = [&](const HttpField& other) { return equals_ignoring_case(field.name, other.name); };
    if (!std::ranges::any_of(added, same)) text += fmt::format("{}: {}\r\n", field.name, field.value);
  }
  for (const auto& field : added) {
    if (!field.value.empty()) text += fmt::format("{}: {}\r\n", field.name, field.value);
  }
  if (request.chunked) text += "Transfer-Encoding: chunked\r\n";
  if (request.has_length) text += fmt::format("Content-Length: {}\r\n", request.content_length);
  return text + "Connection: close\r\n\r\n";
}

std::variant<ProxyResponse, ProxyRefusal> parse_response(std::string_view head) {
  const auto lines = split(head);
  if (const auto* refused = std::get_if<ProxyRefusal>(&lines)) return *refused;
  const auto& [first, fields] = std::get<Lines>(lines);
  ProxyResponse response;
  response.line = first;
  const bool versioned = first.starts_with("HTTP/1.1 ") || first.starts_with("HTTP/1.0 ");
  if (!versioned || first.size() < 12) return bad("the answer is not HTTP/1.1", 502);
  const auto [end, failed] = std::from_chars(first.data() + 9, first.data() + 12, response.status);
  if (failed != std::errc{} || end != first.data() + 12 || response.status < 100)
    return bad("the status of the answer is malformed", 502);
  if (auto refused = read_framing(fields, response)) return bad(refused->sentence, 502);
  for (const auto& coding : values_of(fields, "content-encoding"))
    response.encoded = response.encoded || !equals_ignoring_case(coding, "identity");
  response.fields = end_to_end(fields);
  return response;
}

std::string encode_response(const ProxyResponse& response) {
  auto text = response.line + "\r\n";
  for (const auto& field : response.fields) text += fmt::format("{}: {}\r\n", field.name, field.value);
  if (response.status < 200) return text + "\r\n";
  if (response.chunked) text += "Transfer-Encoding: chunked\r\n";
  if (response.has_length) text += fmt::format("Content-Length: {}\r\n", response.content_length);
  return text + "Connection: close\r\n\r\n";
}

}  // namespace cove::egress
