#include "doors/mcp/excerpt.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace cove::doors::mcp {
namespace {

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80;
}

// Where the beginning of at most `size` bytes ends.
std::size_t end_of_beginning(std::string_view text, std::size_t size) {
  while (size > 0 && continues_character(text[size])) --size;
  const auto newline = text.substr(0, size).rfind('\n');
  return newline != std::string_view::npos && newline + 1 >= size - size / 4 ? newline + 1 : size;
}

// Where the end of at most `size` bytes begins.
std::size_t beginning_of_end(std::string_view text, std::size_t size) {
  auto begin = text.size() - size;
  while (begin < text.size() && continues_character(text[begin])) ++begin;
  const auto newline = text.find('\n', begin);
  return newline != std::string_view::npos && newline + 1 - begin <= size / 4 ? newline + 1 : begin;
}

}  // namespace

std::string excerpt(std::string_view text, std::size_t max_size, std::string_view where) {
  if (text.size() <= max_size) return std::string(text);
  const auto head = end_of_beginning(text, max_size / 2);
  const auto tail = beginning_of_end(text, max_size / 2);
  const auto beginning = text.substr(0, head);
  return fmt::format("{}{}[{} bytes left out; {} has all of it]\n{}", beginning, beginning.ends_with('\n') ? "" : "\n",
                     tail - head, where, text.substr(tail));
}

Shares share(std::size_t first, std::size_t second, std::size_t max_size) {
  const auto half = max_size / 2;
  const auto rest_for_second = max_size - std::min(first, max_size);
  const auto of_second = std::min(second, std::max(half, rest_for_second));
  return {.first = std::min(first, max_size - of_second), .second = of_second};
}

}  // namespace cove::doors::mcp
