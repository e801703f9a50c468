#pragma once

#include <boost/beast/http/verb.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/auth.hpp"

namespace cove::http {

using verb = boost::beast::http::verb;
using NameValues = std::vector<std::pair<std::string, std::string>>;

// The head of one request, checked: what is here is well-formed, its text is UTF-8 without NUL.
struct Request {
  verb method = verb::unknown;
  std::string method_text;
  std::string target;  // as sent (origin-form), without the key
  std::string path;    // of the target, still percent-encoded
  std::string id;      // req_…, or the client's own X-Request-Id
  Principal principal;
  bool admitted = false;  // has shown valid credentials, or needs none
  std::string scope;      // what the request is limited to; "": nothing. Only for routes with RouteOptions::scoped
  std::string peer;       // address and port
  unsigned version = 11;  // 10 or 11

  // The first, and all, of a query parameter, form-decoded (%XX and '+').
  [[nodiscard]] std::optional<std::string> query(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> query_all(std::string_view name) const;
  // The first value, or "" (names compare without case).
  [[nodiscard]] std::string_view header(std::string_view name) const;
  [[nodiscard]] std::vector<std::string_view> header_all(std::string_view name) const;
  // What the route's "{name}" stands for: one path segment, decoded once. "" for a name the route does not have.
  [[nodiscard]] const std::string& param(std::string_view name) const;

  NameValues headers;  // in order, as sent
  NameValues queries;  // in order, decoded
  NameValues params;   // from the route
};

}  // namespace cove::http
