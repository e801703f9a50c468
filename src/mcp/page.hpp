#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "mcp/message.hpp"

namespace cove::mcp {

// The opaque cursor for a position in a list.
std::string cursor_for(std::string_view position);
// The position of `params.cursor`; "" is the beginning. invalid_params for an unknown cursor.
Or<std::string> position_of(const boost::json::object& params);

// A page of `all` under `name`, of at most `most` entries, with the next cursor.
Or<> page_of(const boost::json::object& params, std::string_view name, const boost::json::array& all, std::size_t most);

}  // namespace cove::mcp
