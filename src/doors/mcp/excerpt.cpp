#include "doors/mcp/excerpt.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace cove::doors::mcp {
namespace {

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80;
}

// Where the beginning of at most `size` bytes ends.
std::size_t end_of_beginning(std::string_view text, std::size_t size) {
  while (size > 0 && size < text.size() && continues_character(text[size])) --size;
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

StreamText::StreamText(const StreamEnds& stream) {
  if (stream.whole()) {
    beginning = replace_invalid_utf8(stream.beginning() + stream.end());
    return;
  }
  std::string_view first = stream.beginning();
  first.remove_suffix(unfinished_utf8(first));
  std::string_view last = stream.end();
  for (int i = 0; i < 3 && !last.empty() && continues_character(last.front()); ++i) last.remove_prefix(1);
  missing = stream.written() - first.size() - last.size();
  beginning = replace_invalid_utf8(first);
  end = replace_invalid_utf8(last);
}

ShownText excerpt(const StreamText& stream, std::size_t max_size, std::string_view where, std::uint64_t lost) {
  if (stream.missing == 0 && stream.beginning.size() <= max_size) return {.text = stream.beginning};
  const std::string_view first = stream.beginning;
  const std::string_view last = stream.missing == 0 ? stream.beginning : stream.end;
  const auto beginning = first.substr(0, end_of_beginning(first, std::min(max_size / 2, first.size())));
  const auto end = last.substr(beginning_of_end(last, std::min(max_size / 2, last.size())));
  const auto rest = lost == 0 ? std::string("all of it") : fmt::format("all but {} bytes of it", lost);
  return {
      .text = fmt::format("{}{}[{} bytes left out; {} has {}]\n{}", beginning, beginning.ends_with('\n') ? "" : "\n",
                          stream.size() - beginning.size() - end.size(), where, rest, end),
      .cut = true};
}

ShownText all_of(const StreamText& stream) {
  if (stream.missing == 0) return {.text = stream.beginning};
  return {.text = fmt::format("{}\n[... {} bytes left out ...]\n{}", stream.beginning, stream.missing, stream.end),
          .cut = true};
}

Shares share(std::uint64_t first, std::uint64_t second, std::size_t max_size) {
  const auto half = max_size / 2;
  const auto rest_for_second = max_size - static_cast<std::size_t>(std::min<std::uint64_t>(first, max_size));
  const auto of_second = static_cast<std::size_t>(std::min<std::uint64_t>(second, std::max(half, rest_for_second)));
  return {.first = static_cast<std::size_t>(std::min<std::uint64_t>(first, max_size - of_second)), .second = of_second};
}

}  // namespace cove::doors::mcp
