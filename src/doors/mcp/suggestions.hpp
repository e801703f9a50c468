#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "doors/mcp/tool.hpp"

namespace cove::doors::mcp {

// What an argument of this name may be: languages, the caller's sessions, files of one.
Task<std::vector<std::string>> suggestions(ToolContext& context, cove::mcp::Call& call, std::string name,
                                           boost::json::object others);

// The answer to completion/complete: those that begin with what is typed, then those that have its letters in order; a
// hundred at the most.
boost::json::object completion(std::vector<std::string> all, std::string_view typed);

}  // namespace cove::doors::mcp
