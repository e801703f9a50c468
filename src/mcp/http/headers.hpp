#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "http/request.hpp"
#include "mcp/peer.hpp"

namespace cove::mcp_http {

// Which forms of an answer a client takes. One that says nothing, or `*/*`, takes both.
struct Accepts {
  bool json = false;
  bool events = false;
};
Accepts accepts(const http::Request& request);
bool is_json(const http::Request& request);

// A value that may be `=?base64?…?=`. Nothing when it cannot be read.
std::optional<std::string> decoded(std::string_view value);

// Whether the headers of a modern request say what its body says: the revision, and everything else.
std::optional<cove::mcp::Fault> version_mismatch(const http::Request& request, const boost::json::object& params);
std::optional<cove::mcp::Fault> mismatch(const http::Request& request, std::string_view method,
                                         const boost::json::object& params, const cove::mcp::Service& service);

}  // namespace cove::mcp_http
