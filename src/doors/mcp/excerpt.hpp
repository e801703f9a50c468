#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "doors/mcp/stream_ends.hpp"

namespace cove::doors::mcp {

// What there is of one stream as text, which is UTF-8: all of it, or its beginning and its end.
struct StreamText {
  explicit StreamText(const StreamEnds& stream);
  std::string beginning;  // or all of it
  std::string end;
  std::uint64_t missing = 0;  // bytes between them

  [[nodiscard]] std::uint64_t size() const { return beginning.size() + missing + end.size(); }
};

// One stream as an answer shows it.
struct ShownText {
  std::string text;
  bool cut = false;  // something is left out
};
// In at most about `max_size` bytes: whole, or its beginning and its end, with a line between them that says how much
// is left out and that `where` has all of it, or all but `lost` bytes. Cuts at ends of lines where that costs little.
ShownText excerpt(const StreamText& stream, std::size_t max_size, std::string_view where, std::uint64_t lost = 0);
// All that there is of it, with a line where something is missing.
ShownText all_of(const StreamText& stream);

// How much of `max_size` bytes each of two texts gets: what it needs, as long as the other keeps half.
struct Shares {
  std::size_t first = 0;
  std::size_t second = 0;
};
Shares share(std::uint64_t first, std::uint64_t second, std::size_t max_size);

}  // namespace cove::doors::mcp
