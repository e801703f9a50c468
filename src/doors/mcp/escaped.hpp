#pragma once

#include <cstddef>
#include <string_view>

namespace cove::doors::mcp {

// The size of a text inside a JSON string, in bytes.
std::size_t escaped_size(std::string_view text);
// The longest prefix of `text`, which is UTF-8, whose escaped size is at most `max_size`.
std::string_view fitting(std::string_view text, std::size_t max_size);

}  // namespace cove::doors::mcp
