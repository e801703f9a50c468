#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cove::doors::workspace {

// A piece of a text file that was read from some offset.
struct TextChunk {
  std::string text;      // UTF-8
  std::size_t used = 0;  // bytes of the piece it stands for; those behind begin the next one
};

// What is not UTF-8 is GBK, and what is neither is U+FFFD. Ends between two characters while more comes; a piece that
// is too short for one, which four bytes never are, is not used at all.
enum class More { comes, none };
// Whoever reads from anywhere may have begun within a character: that one is U+FFFD.
enum class Begin { of_file, anywhere };
TextChunk text_chunk(std::string_view bytes, Begin begin, More more);

}  // namespace cove::doors::workspace
