#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "mcp/message.hpp"
#include "mcp/revision.hpp"

namespace cove::mcp {

// The sender's part of a modern request, in params._meta.
struct Envelope {
  boost::json::object capabilities;
  std::optional<std::string> log_level;
  std::string client;  // what it calls itself; "" when it does not say
};

// "io.modelcontextprotocol/NAME".
std::string envelope_key(std::string_view name);
// params._meta; null when there is none.
const boost::json::object* meta_of(const boost::json::object& params);
// Whether it names a revision, and so is a modern request, well-formed or not.
bool has_envelope(const boost::json::object& params);
// invalid_params when something is missing or of the wrong type, unsupported_version for a revision that is not served.
Or<Envelope> read_envelope(const boost::json::object& params);
// The fault for a request that lacks one.
Fault missing_envelope();

// "name version" of a clientInfo, in one line.
std::string client_of(const boost::json::object& info);

// Adds what every modern answer carries.
void add_envelope(boost::json::object& result, boost::json::object server_info);

}  // namespace cove::mcp
