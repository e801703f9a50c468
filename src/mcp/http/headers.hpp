#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "http/request.hpp"
#include "mcp/peer.hpp"

namespace cove::mcp_http {

// The media types that a client accepts. Without Accept, or with `*/*`, both.
struct Accepts {
  bool json = false;
  bool events = false;
};
Accepts accepts(const http::Request& request);
bool is_json(const http::Request& request);

// Decodes a value that may be `=?base64?…?=`. nullopt when it is malformed.
std::optional<std::string> decoded(std::string_view value);

// The fault when the headers of a modern request differ from its body: in the revision, or in anything else.
std::optional<cove::mcp::Fault> version_mismatch(const http::Request& request, const boost::json::object& params);
std::optional<cove::mcp::Fault> mismatch(const http::Request& request, std::string_view method,
                                         const boost::json::object& params, const cove::mcp::Service& service);

}  // namespace cove::mcp_http
