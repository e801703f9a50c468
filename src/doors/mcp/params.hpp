#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "mcp/message.hpp"

namespace cove::doors::mcp {

// Parameters of a request; Code::invalid_params names the one that is wrong.
cove::mcp::Or<std::string> needed(const boost::json::object& params, std::string_view name);
// {} where it is not given.
cove::mcp::Or<boost::json::object> object_in(const boost::json::object& params, std::string_view name);

}  // namespace cove::doors::mcp
