#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

namespace cove::mcp {

// An argument that a modern client repeats in a header, so that what stands between need not read the body.
struct Mirrored {
  std::string header;             // "Mcp-Param-Session-Id"
  std::vector<std::string> path;  // of members, from the arguments down
};

// Those that a tool's input schema names with `x-mcp-header`.
std::vector<Mirrored> mirrored_arguments(const boost::json::object& schema);

// The argument itself; null when it is not given, or null.
const boost::json::value* find_argument(const boost::json::object& arguments, const std::vector<std::string>& path);

// Whether a header's text says what the argument is.
bool says_the_same(const boost::json::value& argument, std::string_view text);

}  // namespace cove::mcp
