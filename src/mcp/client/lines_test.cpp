#include "mcp/client/lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cove::mcp::client {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Lines, AreCutWhereverThePiecesEnd) {
  Lines lines(100);
  EXPECT_THAT(lines.feed("a\nb\r\n\nc"), ElementsAre("a", "b", ""));
  EXPECT_THAT(lines.feed("d"), IsEmpty());
  EXPECT_THAT(lines.feed("\r"), IsEmpty());
  EXPECT_THAT(lines.feed("\ne\rf\ng"), ElementsAre("cd", "e\rf"));
  EXPECT_EQ(lines.rest(), "g");
}

TEST(Lines, ThatAreTooLongArePassedOverAndCounted) {
  Lines lines(4);
  EXPECT_THAT(lines.feed("1234\n12345\nab\n"), ElementsAre("1234", "ab"));
  EXPECT_EQ(lines.overlong(), 1U);
  EXPECT_THAT(lines.feed("123"), IsEmpty());
  EXPECT_THAT(lines.feed("45678"), IsEmpty());
  EXPECT_EQ(lines.rest(), "");
  EXPECT_THAT(lines.feed("9\nx\n"), ElementsAre("x"));
  EXPECT_EQ(lines.overlong(), 2U);
}

}  // namespace
}  // namespace cove::mcp::client
