#include "base/log_fields.hpp"

#include <gtest/gtest.h>

namespace cove {
namespace {

TEST(LogFields, AValueCannotForgeAnotherField) {
  EXPECT_EQ(log_value("demo"), "demo");
  EXPECT_EQ(log_value(""), "\"\"");
  EXPECT_EQ(log_value("a b=c"), "\"a b=c\"");
  EXPECT_EQ(log_value("a\"\\\n\x1b"), "\"a\\\"\\\\\\x0a\\x1b\"");
  EXPECT_EQ(log_value("abcdef", 3), "\"abc...\"");
}

TEST(LogFields, ALineComesApartAsItWasPutTogether) {
  const auto line = parse_log_line("sandbox created sandbox=" + log_value("my box=\"1\"") + " tenant=a ms=1.5");
  EXPECT_EQ(line.words, "sandbox created");
  ASSERT_EQ(line.fields.size(), 3U);
  EXPECT_EQ(line.fields[0].key, "sandbox");
  EXPECT_EQ(line.fields[0].value, "my box=\"1\"");
  EXPECT_EQ(line.fields[1].value, "a");
  EXPECT_EQ(line.fields[2].value, "1.5");
}

TEST(LogFields, WordsWithoutFieldsStayWords) {
  EXPECT_EQ(parse_log_line("serving on http://127.0.0.1:8000").words, "serving on http://127.0.0.1:8000");
  EXPECT_TRUE(parse_log_line("/a?b=c is no field").fields.empty());
}

}  // namespace
}  // namespace cove
