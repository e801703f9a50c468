#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cove::doors::mcp {

// A text that is UTF-8, in at most about `max_size` bytes: whole, or its beginning and its end, with a line between
// them that says how much is left out and that `where` has all of it. Cuts at ends of lines where that costs little.
std::string excerpt(std::string_view text, std::size_t max_size, std::string_view where);

// How much of `max_size` bytes each of two texts gets: what it needs, as long as the other keeps half.
struct Shares {
  std::size_t first = 0;
  std::size_t second = 0;
};
Shares share(std::size_t first, std::size_t second, std::size_t max_size);

}  // namespace cove::doors::mcp
