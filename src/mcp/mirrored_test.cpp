#include "mcp/mirrored.hpp"

#include <gtest/gtest.h>

namespace cove::mcp {
namespace {

namespace json = boost::json;

TEST(Mirrored, FindsNestedPropertiesAndNothingElse) {
  const auto schema = json::parse(R"({"type":"object","properties":{
    "session_id":{"type":"string","x-mcp-header":"Session-Id"},
    "where":{"type":"object","properties":{"zone":{"type":"integer","x-mcp-header":"Zone"}}},
    "list":{"type":"array","items":{"type":"string","x-mcp-header":"Never"}}}})");
  const auto found = mirrored_arguments(schema.as_object());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].header, "Mcp-Param-Session-Id");
  EXPECT_EQ(found[1].path, (std::vector<std::string>{"where", "zone"}));
}

TEST(Mirrored, ArgumentsThatAreNullAreNotGiven) {
  const auto arguments = json::parse(R"({"a":null,"b":{"c":7},"d":"x"})").as_object();
  EXPECT_EQ(find_argument(arguments, {"a"}), nullptr);
  EXPECT_EQ(find_argument(arguments, {"d", "c"}), nullptr);
  ASSERT_NE(find_argument(arguments, {"b", "c"}), nullptr);
  EXPECT_EQ(find_argument(arguments, {"b", "c"})->as_int64(), 7);
}

TEST(Mirrored, NumbersAreComparedAsNumbers) {
  EXPECT_TRUE(says_the_same(7, "7.0"));
  EXPECT_FALSE(says_the_same(7, "7x"));
  EXPECT_FALSE(says_the_same(7, ""));
  EXPECT_TRUE(says_the_same(true, "true"));
  EXPECT_FALSE(says_the_same(true, "TRUE"));
  EXPECT_TRUE(says_the_same("7", "7"));
  EXPECT_FALSE(says_the_same(json::array{}, "[]"));
}

}  // namespace
}  // namespace cove::mcp
