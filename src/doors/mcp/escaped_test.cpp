#include "doors/mcp/escaped.hpp"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>

namespace cove::doors::mcp {
namespace {

TEST(EscapedSize, IsWhatJsonTakes) {
  std::string text;
  for (int c = 0; c < 0x80; ++c) text += static_cast<char>(c);
  text += "é€😀";
  EXPECT_EQ(escaped_size(text) + 2, boost::json::serialize(boost::json::value(text)).size());
}

TEST(Fitting, CutsWhereACharacterEnds) {
  EXPECT_EQ(fitting("abc", 3), "abc");
  EXPECT_EQ(fitting("abc", 2), "ab");
  EXPECT_EQ(fitting("a\nb", 2), "a");
  EXPECT_EQ(fitting(std::string_view("\0\0\0", 3), 12), std::string_view("\0\0", 2));
  EXPECT_EQ(fitting("a€b", 3), "a");
  EXPECT_EQ(fitting("a€b", 4), "a€");
  EXPECT_EQ(fitting("€", 0), "");
}

}  // namespace
}  // namespace cove::doors::mcp
