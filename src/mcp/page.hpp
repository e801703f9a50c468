#pragma once

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "mcp/message.hpp"

namespace cove::mcp {

// Where a list goes on, as clients are told: text that nobody has to understand.
std::string cursor_for(std::string_view place);
// The place of `params.cursor`, "" at the beginning. invalid_params for what is no cursor of ours.
Or<std::string> position_of(const boost::json::object& params);

// A part of `all` under `name`, as long as `most`, and where it goes on.
Or<> page_of(const boost::json::object& params, std::string_view name, const boost::json::array& all, std::size_t most);

}  // namespace cove::mcp
