#include "doors/workspace/text_chunk.hpp"

#include <gmock/gmock.h>

namespace cove::doors::workspace {
namespace {

// A whole text read in pieces of this size, as readfile does.
std::string read_in_pieces(std::string_view bytes, std::size_t piece) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto more = [&](std::string_view part) { return at + part.size() < bytes.size() ? More::comes : More::none; };
    auto part = bytes.substr(at, piece);
    const auto begin = at == 0 ? Begin::of_file : Begin::anywhere;
    auto chunk = text_chunk(part, begin, more(part));
    if (chunk.used == 0) {
      part = bytes.substr(at, std::max<std::size_t>(piece, 4));
      chunk = text_chunk(part, begin, more(part));
    }
    if (chunk.used == 0) return "stuck";
    text += chunk.text;
    at += chunk.used;
  }
  return text;
}

TEST(TextChunk, NoCharacterIsSplitWhateverThePiece) {
  const std::string text = "aé漢字😀z\n";
  for (std::size_t piece = 1; piece < 20; ++piece) EXPECT_EQ(read_in_pieces(text, piece), text) << piece;
}

TEST(TextChunk, WhatIsNotUtf8IsGbk) {
  const std::string gbk = "\xc4\xe3\xba\xc3, \xca\xc0\xbd\xe7\n";  // 你好, 世界
  for (std::size_t piece = 2; piece < 20; ++piece) EXPECT_EQ(read_in_pieces(gbk, piece), "你好, 世界\n") << piece;
}

TEST(TextChunk, WhatIsNeitherIsReplaced) {
  EXPECT_EQ(text_chunk("a\xff\xff", Begin::of_file, More::none).text, "a\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(text_chunk("\xe6\xbc", Begin::of_file, More::none).used, 2U);
}

TEST(TextChunk, AReaderThatBeginsInTheMiddleOfACharacterSeesThatOneReplaced) {
  EXPECT_EQ(text_chunk("\xbc\xa2 and é", Begin::anywhere, More::none).text, "\xef\xbf\xbd and é");
}

TEST(TextChunk, GbkIsGbkWhereverItBegins) {
  for (const std::string_view gbk : {"\xb1\xb1,1,2\n", "\xb2\xbb yes", "\x9d\x68 hello"})  // 北 不 漢
    EXPECT_THAT(text_chunk(gbk, Begin::of_file, More::none).text, testing::Not(testing::HasSubstr("\xef\xbf\xbd")));
  const std::string text = "a \x9d\x68 b \xb1\xb1 c";
  for (std::size_t piece = 2; piece < 12; ++piece) EXPECT_EQ(read_in_pieces(text, piece), "a 漢 b 北 c") << piece;
}

}  // namespace
}  // namespace cove::doors::workspace
