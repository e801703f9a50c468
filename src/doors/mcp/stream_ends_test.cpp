#include "doors/mcp/stream_ends.hpp"

#include <gtest/gtest.h>

namespace cove::doors::mcp {
namespace {

std::string numbers(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST(StreamEnds, HaveEverythingUpToTheirLimit) {
  const auto text = numbers(100);
  for (const std::size_t piece : {1U, 7U, 10'000U}) {
    StreamEnds stream(text.size());
    for (std::size_t at = 0; at < text.size(); at += piece) stream.add(std::string_view(text).substr(at, piece));
    EXPECT_TRUE(stream.whole());
    EXPECT_EQ(stream.beginning() + stream.end(), text);
  }
}

TEST(StreamEnds, HaveTheBeginningAndTheEndOfMore) {
  const auto text = numbers(100'000);
  for (const std::size_t piece : {1U, 7U, 100'000U, 1'000'000U}) {
    StreamEnds stream(10'000);
    for (std::size_t at = 0; at < text.size(); at += piece) stream.add(std::string_view(text).substr(at, piece));
    EXPECT_FALSE(stream.whole());
    EXPECT_EQ(stream.written(), text.size());
    EXPECT_EQ(stream.beginning(), text.substr(0, 7500));
    EXPECT_GE(stream.end().size(), 2500U);
    EXPECT_LE(stream.end().size(), 5000U);
    EXPECT_TRUE(text.ends_with(stream.end()));
  }
}

TEST(StreamEnds, AreNotWholeWhenSomethingNeverCame) {
  StreamEnds stream(100);
  stream.add("abc");
  stream.set_written(5);
  EXPECT_FALSE(stream.whole());
}

}  // namespace
}  // namespace cove::doors::mcp
