#include "json/fields.hpp"

#include <gmock/gmock.h>

namespace cove::json {
namespace {

const boost::json::object kObject{
    {"text", "a"}, {"number", 1.5}, {"flag", true}, {"object", {{"a", 1}}}, {"null", nullptr}};

TEST(Fields, GiveWhatIsThere) {
  EXPECT_EQ(text_of(kObject, "text"), "a");
  EXPECT_EQ(*text_field(kObject, "text"), "a");
  EXPECT_EQ(*number_field(kObject, "number"), 1.5);
  EXPECT_EQ(*bool_field(kObject, "flag"), true);
  EXPECT_EQ((*object_field(kObject, "object"))->size(), 1U);
}

TEST(Fields, TakeNullForMissing) {
  for (const auto* name : {"null", "missing"}) {
    EXPECT_EQ(text_of(kObject, name), "");
    EXPECT_EQ(*text_field(kObject, name), std::nullopt);
    EXPECT_EQ(*number_field(kObject, name), std::nullopt);
    EXPECT_EQ(*bool_field(kObject, name), std::nullopt);
    EXPECT_EQ(*object_field(kObject, name), nullptr);
  }
}

TEST(Fields, NameAFieldOfAnotherType) {
  EXPECT_EQ(text_of(kObject, "number"), "");
  EXPECT_EQ(text_field(kObject, "flag").error().message, "flag must be a string");
  EXPECT_EQ(number_field(kObject, "text").error().message, "text must be a number");
  EXPECT_EQ(bool_field(kObject, "text").error().message, "text must be true or false");
  EXPECT_EQ(object_field(kObject, "text").error().message, "text must be an object");
}

}  // namespace
}  // namespace cove::json
