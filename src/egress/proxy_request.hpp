#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cove::egress {

struct HttpField {
  std::string name;  // as it was sent
  std::string value;
  bool operator==(const HttpField&) const = default;
};

// The head of a request, as a client sends it to a proxy or, where egress stands in for the server, to that. Read
// strictly: what two parsers may understand in two ways is refused.
struct ProxyRequest {
  enum class Form : std::uint8_t { connect, absolute, origin };
  Form form{};
  std::string method;
  std::string host;  // as written, an IPv6 address without its brackets; of the form origin: of Host
  std::uint16_t port = 0;
  std::uint16_t default_port = 80;  // which Host leaves out
  std::string path;                 // with the query; "" of connect
  std::vector<HttpField> fields;    // without Host, framing, and what belongs to one connection alone
  bool chunked = false;
  std::uint64_t content_length = 0;
  bool has_length = false;

  [[nodiscard]] bool has_body() const { return chunked || content_length > 0; }
};

struct ProxyRefusal {
  unsigned status = 400;
  std::string sentence;
};

// `head` is what http::HeadScanner found. `default_port`: of the form origin, which names none.
std::variant<ProxyRequest, ProxyRefusal> parse_proxy_request(std::string_view head, std::uint16_t default_port = 80);

// The same request as it goes to its server, in the form origin: one request for one connection. `added` takes the
// place of fields of the same name.
std::string encode_request(const ProxyRequest& request, std::span<const HttpField> added);

// The head of an answer.
struct ProxyResponse {
  unsigned status = 0;
  std::string line;               // "HTTP/1.1 200 OK"
  std::vector<HttpField> fields;  // without what belongs to one connection alone
  bool chunked = false;
  bool has_length = false;
  std::uint64_t content_length = 0;
  bool encoded = false;  // Content-Encoding is something else than identity
};
// `head` ends with the empty line. Nothing: it is malformed.
std::variant<ProxyResponse, ProxyRefusal> parse_response(std::string_view head);
// As it goes to the client: the connection ends after it.
std::string encode_response(const ProxyResponse& response);

}  // namespace cove::egress
