#include "base/output_end.hpp"

#include <gtest/gtest.h>

namespace cove {
namespace {

// Everything a reader gets of `text`, which comes in pieces.
std::string kept(std::string_view text, std::uint64_t limit, std::size_t piece) {
  const auto head = std::min<std::uint64_t>(text.size(), OutputEnd::beginning(limit));
  OutputEnd end(limit);
  for (std::size_t at = head; at < text.size(); at += piece) end.add(text.substr(at, piece));
  return std::string(text.substr(0, head)) + end.take();
}

std::string lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += std::to_string(i) + "\n";
  return text;
}

TEST(OutputEnd, OutputUpToItsLimitIsWhole) {
  for (const std::size_t size : {0U, 1U, 700U, 1023U, 1024U}) {
    const std::string text(size, 'x');
    EXPECT_EQ(kept(text, 1024, 100), text);
  }
}

TEST(OutputEnd, OfMoreTheBeginningAndTheEndAreKeptWithinTheLimit) {
  for (const std::size_t piece : {1U, 7U, 4096U, 1U << 20}) {
    const auto text = lines(20'000);
    const auto shown = kept(text, 2048, piece);
    EXPECT_EQ(shown.size(), 2048U);
    EXPECT_TRUE(shown.starts_with("0\n1\n2\n"));
    EXPECT_TRUE(shown.ends_with("\n19998\n19999\n"));
    const auto line = shown.find("\n[... ");
    const auto after = shown.find(" bytes left out ...]\n");
    ASSERT_NE(line, std::string::npos);
    const auto words = after + std::string_view(" bytes left out ...]\n").size() - line;
    EXPECT_EQ(std::stoul(shown.substr(line + 6)), text.size() - (shown.size() - words));
  }
}

TEST(OutputEnd, OneByteOverTheLimitIsSaid) {
  const auto shown = kept(std::string(1025, 'x'), 1024, 1);
  EXPECT_EQ(shown.size(), 1024U);
  EXPECT_NE(shown.find(" bytes left out ...]"), std::string::npos);
}

TEST(OutputEnd, CharactersAreNotCut) {
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'x');
    for (int i = 0; i < 1000; ++i) text += "\U0001F30A";
    auto shown = kept(text, 1024, 5);
    shown.erase(0, shift);
    while (shown.starts_with("\U0001F30A")) shown.erase(0, 4);
    EXPECT_TRUE(shown.starts_with("\n[... "));
    shown.erase(0, shown.find("]\n") + 2);
    EXPECT_EQ(shown.size() % 4, 0U);
    while (shown.starts_with("\U0001F30A")) shown.erase(0, 4);
    EXPECT_EQ(shown, "");
  }
}

TEST(OutputEnd, ATinyLimitKeepsTheBeginningAlone) {
  EXPECT_EQ(OutputEnd::beginning(10), 10U);
  EXPECT_EQ(OutputEnd::beginning(0), 0U);
  EXPECT_EQ(OutputEnd::beginning(UINT64_MAX / 4), UINT64_MAX / 4 - (64U << 10) - 51);
}

}  // namespace
}  // namespace cove
