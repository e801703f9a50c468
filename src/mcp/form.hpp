#pragma once

#include <boost/json.hpp>
#include <string_view>

#include "mcp/revision.hpp"

namespace cove::mcp {

// Converts an answer of the newest revision to the given one: removes fields and block types that it does not have.
// `bare` keeps annotations that clients without a handshake read.
boost::json::object fit(boost::json::object result, std::string_view method, Revision revision, bool bare);

}  // namespace cove::mcp
