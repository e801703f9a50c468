#include "schema/pattern.hpp"

#include <gtest/gtest.h>

#include <string>

namespace cove::schema {
namespace {

struct Row {
  const char* name;
  std::string_view pattern;
  std::string_view text;
  bool found;
};
class Patterns : public testing::TestWithParam<Row> {};

TEST_P(Patterns, AreFoundWhereTheyShouldBe) {
  const auto pattern = Pattern::compile(GetParam().pattern);
  ASSERT_TRUE(pattern);
  std::size_t steps = 100'000;
  EXPECT_EQ(pattern->found_in(GetParam().text, steps), GetParam().found);
}
INSTANTIATE_TEST_SUITE_P(, Patterns,
                         testing::ValuesIn(std::to_array<Row>({
                             {"Anywhere", "b", "abc", true},
                             {"Nowhere", "d", "abc", false},
                             {"Whole", "^[a-z0-9-]+$", "ab-9", true},
                             {"WholeWithMore", "^[a-z0-9-]+$", "ab_9", false},
                             {"Choice", "^(cat|dog)s?$", "dogs", true},
                             {"ChoiceOfNothing", "^(|a)b$", "b", true},
                             {"NotTheChoice", "^(cat|dog)s?$", "dogss", false},
                             {"CountedExactly", "^\\d{3}$", "123", true},
                             {"CountedTooMany", "^\\d{3}$", "1234", false},
                             {"CountedAtLeast", "^a{2,}$", "aaaa", true},
                             {"CountedBetween", "^a{2,3}$", "aaaa", false},
                             {"CountedFromNothing", "^a{0,2}$", "", true},
                             {"BraceThatIsOne", "^a{b}$", "a{b}", true},
                             {"ClassWithin", "^[\\w.]+@[\\d]+$", "a.b@12", true},
                             {"NegatedClass", "^[^\\s]+$", "a b", false},
                             {"CapitalClass", "^\\D+$", "ab", true},
                             {"CapitalClassWithin", "^[\\S]+$", "a b", false},
                             {"Boundary", "\\bcat\\b", "a cat sat", true},
                             {"NoBoundary", "\\bcat\\b", "concat", false},
                             {"Dot", "^.$", "\xC3\xA9", true},
                             {"DotAndNewline", "^.$", "\n", false},
                             {"Unicode", "^\\u00e9$", "\xC3\xA9", true},
                             {"BeyondTheFirstPlane", "^[\\u{1F600}-\\u{1F64F}]$", "\xF0\x9F\x98\x80", true},
                             {"SurrogatePair", "^\\uD83D\\uDE00$", "\xF0\x9F\x98\x80", true},
                             {"Lazy", "^a+?b$", "aab", true},
                             {"NamedGroup", "^(?<x>a)b$", "ab", true},
                             {"LoopOfNothing", "^(a*)*b$", "aaab", true},
                             {"Empty", "", "x", true},
                             {"HyphenAtTheEnd", "^[a-]$", "-", true},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Pattern, RefusesWhatItCannotDo) {
  for (const auto* text : {"(?=a)", "(?<!a)b", "(a)\\1", "\\p{L}", "(", ")", "[a", "a**", "*", "[z-a]", "\\",
                           "a{9999999}", "((a{1000}){1000}){1000}"})
    EXPECT_FALSE(Pattern::compile(text)) << text;
}

TEST(Pattern, TakesTimeInProportionToTheText) {
  const auto pattern = Pattern::compile("^(a+)+$");
  ASSERT_TRUE(pattern);
  std::size_t steps = 1'000'000;
  EXPECT_FALSE(pattern->found_in(std::string(20'000, 'a') + "b", steps));
  EXPECT_GT(steps, 500'000U);
}

TEST(Pattern, StopsWhenItIsOutOfSteps) {
  const auto pattern = Pattern::compile("(a|b|c|d)*z");
  std::size_t steps = 1000;
  EXPECT_FALSE(pattern->found_in(std::string(100'000, 'a'), steps));
  EXPECT_EQ(steps, 0U);
}

}  // namespace
}  // namespace cove::schema
