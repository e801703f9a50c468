#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "outbound/client.hpp"

namespace cove::mcp::client {

// What requests of the newest revision say outside the body as well: the method, and the name of what it is about.
void add_standard_headers(outbound::Headers& headers, std::string_view method, const boost::json::object& params);

// The arguments that a tool's input schema wants mirrored (x-mcp-header), as they are sent: a null is left out.
outbound::Headers mirrored_headers(const boost::json::object& input_schema, const boost::json::object& arguments);
// Errc::conflict: the schema asks for something illegal, so that the tool may not be used over HTTP; the sentence says
// what.
Result<> check_mirrored(const boost::json::object& input_schema);

// The text itself where a header can carry it, "=?base64?…?=" where it cannot.
std::string header_text(std::string_view text);

}  // namespace cove::mcp::client
