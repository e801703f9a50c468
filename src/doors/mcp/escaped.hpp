#pragma once

#include <cstddef>
#include <string_view>

namespace cove::doors::mcp {

// How many bytes a text takes between the quotes of JSON: what is written must fit into lines that clients can read.
std::size_t escaped_size(std::string_view text);
// The longest beginning of `text`, which is UTF-8, that takes no more than `most` there.
std::string_view fitting(std::string_view text, std::size_t most);

}  // namespace cove::doors::mcp
