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

// Decodes UTF-8, else GBK; anything else becomes U+FFFD. A chunk that is not the last ends between two characters; one
// too short for a character (at most three bytes) is left unused.
enum class More { comes, none };
// A read from any offset may begin inside a character, which becomes U+FFFD.
enum class Begin { of_file, anywhere };
TextChunk text_chunk(std::string_view bytes, Begin begin, More more);

}  // namespace cove::doors::workspace
