#pragma once

#include <boost/json.hpp>
#include <string_view>

#include "mcp/revision.hpp"

namespace cove::mcp {

// An answer in the form of the newest revision becomes one that the given revision knows: no field and no kind of block
// that it lacks. `bare` keeps what clients from before the protocol's own annotations look at.
boost::json::object fit(boost::json::object result, std::string_view method, Revision revision, bool bare);

}  // namespace cove::mcp
