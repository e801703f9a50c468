#include "doors/mcp/excerpt.hpp"

#include <gmock/gmock.h>

#include "base/text.hpp"

namespace cove::doors::mcp {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

StreamText stream_of(std::string_view text, std::size_t limit = 1 << 20, std::uint64_t written = 0) {
  StreamEnds stream(limit);
  stream.add(text);
  stream.set_written(written);
  return StreamText(stream);
}

TEST(Excerpt, IsTheTextItselfWhenItFits) {
  EXPECT_EQ(excerpt(stream_of("hello\n"), 6, "x").text, "hello\n");
  EXPECT_FALSE(excerpt(stream_of("hello\n"), 6, "x").cut);
  EXPECT_EQ(excerpt(stream_of(""), 0, "x").text, "");
}

TEST(Excerpt, KeepsTheBeginningAndTheEndAndSaysWhatIsMissing) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += fmt::format("line {}\n", i);
  const auto kept = excerpt(stream_of(text), 400, "execution://1/stdout").text;
  EXPECT_THAT(kept, StartsWith("line 0\nline 1\n"));
  EXPECT_THAT(kept, EndsWith("line 998\nline 999\n"));
  EXPECT_THAT(kept, HasSubstr(" bytes left out; execution://1/stdout has all of it]\n"));
  EXPECT_LT(kept.size(), 480U);
}

TEST(Excerpt, CountsWhatItLeavesOut) {
  const auto kept = excerpt(stream_of(std::string(1000, 'x')), 100, "w").text;
  EXPECT_EQ(kept, std::string(50, 'x') + "\n[900 bytes left out; w has all of it]\n" + std::string(50, 'x'));
}

TEST(Excerpt, CutsNoCharacterInTwo) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "€";
  for (std::size_t size = 20; size < 32; ++size)
    EXPECT_TRUE(valid_utf8(excerpt(stream_of(text), size, "w").text)) << size;
}

TEST(Excerpt, CountsWhatWasNeverInMemoryAndSaysWhatNobodyHas) {
  const auto stream = stream_of(std::string(1'000'000, 'x'), 10'000);
  const auto kept = excerpt(stream, 100, "w", 7);
  EXPECT_EQ(kept.text,
            std::string(50, 'x') + "\n[999900 bytes left out; w has all but 7 bytes of it]\n" + std::string(50, 'x'));
  EXPECT_TRUE(kept.cut);
  EXPECT_THAT(all_of(stream).text, HasSubstr("\n[... 990000 bytes left out ...]\n"));
  const auto more = stream_of(std::string(1'000'000, 'x'), 10'000, 2'000'000);
  EXPECT_THAT(excerpt(more, 100, "w").text, HasSubstr("[1999900 bytes left out;"));
}

TEST(Excerpt, BytesThatAreNotTextAreCountedAsTheyAreShown) {
  EXPECT_EQ(excerpt(stream_of("\xff\xfe"), 6, "w").text, "\uFFFD\uFFFD");
  EXPECT_EQ(stream_of("\xff\xfe").size(), 6U);
}

TEST(Excerpt, MayBeAskedForMoreThanIsInMemory) {
  const auto stream = stream_of(std::string(1'000'000, 'x'), 10'000);
  EXPECT_THAT(excerpt(stream, 100'000, "w").text, HasSubstr("[990000 bytes left out;"));
}

TEST(Share, GivesEachWhatItNeedsAsLongAsTheOtherKeepsHalf) {
  using Sizes = std::pair<std::size_t, std::size_t>;
  const auto of = [](std::size_t first, std::size_t second) {
    const auto both = share(first, second, 100);
    return Sizes(both.first, both.second);
  };
  EXPECT_EQ(of(30, 40), Sizes(30, 40));
  EXPECT_EQ(of(500, 10), Sizes(90, 10));
  EXPECT_EQ(of(10, 500), Sizes(10, 90));
  EXPECT_EQ(of(500, 500), Sizes(50, 50));
}

}  // namespace
}  // namespace cove::doors::mcp
