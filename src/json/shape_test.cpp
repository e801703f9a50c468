#include "json/shape.hpp"

#include <gtest/gtest.h>

namespace cove::json {
namespace {

TEST(Shape, CountsElementsAndMembersOutsideOfStrings) {
  const auto shape = shape_of(R"({"a":[1,2,{"b":"x,[{:\"y\\"}],"c":null})");
  EXPECT_EQ(shape.elements, 6U);
  EXPECT_EQ(shape.members, 3U);
}

TEST(Shape, EndsWithAStringThatDoesNot) {
  EXPECT_EQ(shape_of(R"([1,"abc)").elements, 2U);
  EXPECT_EQ(shape_of(R"([1,"abc\)").elements, 2U);
  EXPECT_EQ(shape_of("").elements, 0U);
}

}  // namespace
}  // namespace cove::json
