#include "doors/execute/output.hpp"

#include <gmock/gmock.h>

namespace cove::doors::execute {
namespace {

TEST(ShownOutput, IsWholeUpToTheLimit) {
  EXPECT_EQ(shown_output("abc", 3, 3), "abc");
  EXPECT_EQ(shown_output("", 0, 0), "");
}

TEST(ShownOutput, OverTheLimitEndsInAMarker) {
  const std::string kept(1'000'000, 'x');
  const auto shown = shown_output(kept, 1'000'001, 1'000'000);
  EXPECT_EQ(shown.size(), 999'983U);
  EXPECT_TRUE(shown.ends_with("x\n...[truncated]"));
  EXPECT_EQ(shown_output(std::string(20, 'x'), 21, 20), "\n...[truncated]");
  EXPECT_EQ(shown_output("", 1, 0), "\n...[truncated]");
}

TEST(ShownOutput, ACharacterThatIsCutIsReplaced) {
  std::string kept(31, 'x');
  kept += "\xc3\xa9" + std::string(40, 'y');
  EXPECT_EQ(shown_output(kept.substr(0, 64), 1000, 64), std::string(31, 'x') + "\xef\xbf\xbd\n...[truncated]");
}

TEST(ShownOutput, WhatIsNotUtf8IsReplaced) {
  EXPECT_EQ(shown_output("a\xff\xfe"
                         "b",
                         4, 10),
            "a\xef\xbf\xbd\xef\xbf\xbd"
            "b");
}

std::string streamed(const std::string& bytes, std::size_t piece) {
  TextStream stream;
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto text = stream.take(std::string_view(bytes).substr(at, piece));
    out += text;
  }
  return out + stream.rest();
}

TEST(TextStreams, SayTheSameInWhateverPiecesTheBytesCome) {
  for (const std::string& bytes :
       {std::string("plain"), std::string("h\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80!"), std::string("\xf0\x9f\x98"),
        std::string("\xff\xc3(\xe0\x80\x80\xed\xa0\x80\xf4\x90\x80\x80\xf0\x80"), std::string("\xc3\xc3\xa9")}) {
    const auto whole = shown_output(bytes, bytes.size(), 1000);
    for (const std::size_t piece : {1U, 2U, 3U, 4U, 100U}) EXPECT_EQ(streamed(bytes, piece), whole) << piece;
  }
}

TEST(TextStreams, HoldBackWhatIsNotYetACharacter) {
  TextStream stream;
  EXPECT_EQ(stream.take("a\xf0\x9f"), "a");
  EXPECT_EQ(stream.take("\x98"), "");
  EXPECT_EQ(stream.take("\x80z"), "\xf0\x9f\x98\x80z");
  EXPECT_EQ(stream.take("\xe6"), "");
  EXPECT_EQ(stream.rest(), "\xef\xbf\xbd");
  EXPECT_EQ(stream.rest(), "");
}

}  // namespace
}  // namespace cove::doors::execute
