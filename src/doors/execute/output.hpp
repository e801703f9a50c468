#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cove::doors::execute {

// One stream as text: `kept` is its first bytes, up to `limit`, of `written` in total. Over the limit it ends with the
// line "...[truncated]". Invalid UTF-8 becomes U+FFFD.
std::string shown_output(std::string kept, std::uint64_t written, std::uint64_t limit);

// Converts a stream of bytes to text; no piece ends inside a character.
class TextStream {
 public:
  // May be empty.
  std::string take(std::string_view bytes);
  // The bytes held back, at the end of the stream.
  std::string rest();

 private:
  std::string held_;
};

}  // namespace cove::doors::execute
