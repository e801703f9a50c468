#include "doors/mcp/excerpt.hpp"

#include <gmock/gmock.h>

#include "base/text.hpp"

namespace cove::doors::mcp {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Excerpt, IsTheTextItselfWhenItFits) {
  EXPECT_EQ(excerpt("hello\n", 6, "x"), "hello\n");
  EXPECT_EQ(excerpt("", 0, "x"), "");
}

TEST(Excerpt, KeepsTheBeginningAndTheEndAndSaysWhatIsMissing) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += fmt::format("line {}\n", i);
  const auto kept = excerpt(text, 400, "execution://1/stdout");
  EXPECT_THAT(kept, StartsWith("line 0\nline 1\n"));
  EXPECT_THAT(kept, EndsWith("line 998\nline 999\n"));
  EXPECT_THAT(kept, HasSubstr(" bytes left out; execution://1/stdout has all of it]\n"));
  EXPECT_LT(kept.size(), 480U);
}

TEST(Excerpt, CountsWhatItLeavesOut) {
  const auto kept = excerpt(std::string(1000, 'x'), 100, "w");
  EXPECT_EQ(kept, std::string(50, 'x') + "\n[900 bytes left out; w has all of it]\n" + std::string(50, 'x'));
}

TEST(Excerpt, CutsNoCharacterInTwo) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += "€";
  for (std::size_t size = 20; size < 32; ++size) EXPECT_TRUE(valid_utf8(excerpt(text, size, "w"))) << size;
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
