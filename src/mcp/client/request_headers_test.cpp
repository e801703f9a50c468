#include "mcp/client/request_headers.hpp"

#include <gtest/gtest.h>

#include <string>

namespace cove::mcp::client {
namespace {

namespace json = boost::json;

TEST(HeaderText, IsCodedOnlyWhereAHeaderCannotCarryIt) {
  EXPECT_EQ(header_text("us west 1"), "us west 1");
  EXPECT_EQ(header_text(""), "");
  EXPECT_EQ(header_text(" x"), "=?base64?IHg=?=");
  EXPECT_EQ(header_text("\xC3\xA9"), "=?base64?w6k=?=");
  EXPECT_EQ(header_text("a\r\nb"), "=?base64?YQ0KYg==?=");
  EXPECT_EQ(header_text("=?base64?x?="), "=?base64?PT9iYXNlNjQ/eD89?=");
}

TEST(MirroredHeaders, AreLegalOnlyOnPropertiesOfPlainTypes) {
  const auto check = [](const char* text) { return check_mirrored(json::parse(text).as_object()).has_value(); };
  EXPECT_TRUE(check(R"({"properties":{"a":{"type":"string","x-mcp-header":"A"}}})"));
  EXPECT_TRUE(check(R"({"properties":{"x-mcp-header":{"type":"string"}}})"));  // that is what a property is called
  EXPECT_FALSE(check(R"({"properties":{"a":{"type":"number","x-mcp-header":"A"}}})"));
  EXPECT_FALSE(check(R"({"properties":{"a":{"x-mcp-header":"A"}}})"));
  EXPECT_FALSE(
      check(R"({"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}})"));
  EXPECT_FALSE(check(R"({"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]})"));
  EXPECT_FALSE(check(R"({"x-mcp-header":"A"})"));
}

}  // namespace
}  // namespace cove::mcp::client
