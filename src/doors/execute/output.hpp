#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cove::doors::execute {

// What is answered of one stream: `kept` are its first bytes, up to `limit`, of `written` there were. Over the limit it
// ends in the line "...[truncated]"; what is not UTF-8 is U+FFFD.
std::string shown_output(std::string kept, std::uint64_t written, std::uint64_t limit);

// Bytes to text, as they come: no piece ends within a character.
class TextStream {
 public:
  // May be empty.
  std::string take(std::string_view bytes);
  // What was held back, when nothing more comes.
  std::string rest();

 private:
  std::string held_;
};

}  // namespace cove::doors::execute
