#pragma once

#include <string_view>

namespace cove::doors::mcp {

// Whether JavaScript is an ES module, which an interpreter cannot run: a line of it begins with import or export. What
// stands in a string, a template literal, a comment or a regular expression does not count.
bool is_es_module(std::string_view code);

}  // namespace cove::doors::mcp
