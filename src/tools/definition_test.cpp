#include "tools/definition.hpp"

#include <gmock/gmock.h>

#include <array>

namespace cove::tools {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

Result<Definition> parsed(std::string_view body, std::string name = "srv") {
  return parse_definition(std::move(name), json::parse(body).as_object());
}

TEST(Definition, KeepsParametersAndPolicyApart) {
  const auto definition = parsed(
      R"({"command":"node","args":["x.js"],"env":{"K":"${K}"},"policy":{"default":"ask","allow":["read_*"],"deny":["read_secret"]},"directory":"lib/tools"})");
  ASSERT_TRUE(definition);
  EXPECT_EQ(json::serialize(definition->params), R"({"command":"node","args":["x.js"],"env":{"K":"${K}"}})");
  EXPECT_EQ(definition->verdict_on("read_file"), Verdict::allow);
  EXPECT_EQ(definition->verdict_on("read_secret"), Verdict::deny);
  EXPECT_EQ(definition->verdict_on("write"), Verdict::ask);
  EXPECT_EQ(definition->directory, "lib/tools");
  EXPECT_EQ(definition->place, Place::own);
}

TEST(Definition, HasNoOpinionUnlessItIsGivenOne) {
  EXPECT_EQ(parsed(R"({"command":"node"})")->verdict_on("x"), std::nullopt);
}

struct Row {
  const char* name;
  std::string_view body;
  std::string_view complaint;
};
class Wrong : public testing::TestWithParam<Row> {};
TEST_P(Wrong, IsRefusedByItsField) {
  const auto definition = parsed(GetParam().body);
  ASSERT_FALSE(definition);
  EXPECT_THAT(definition.error().message, HasSubstr(std::string(GetParam().complaint)));
}
INSTANTIATE_TEST_SUITE_P(, Wrong,
                         testing::ValuesIn(std::to_array<Row>({
                             {"Policy", R"({"command":"x","policy":{"default":"maybe"}})", "policy.default"},
                             {"PolicyField", R"({"command":"x","policy":{"allowed":[]}})", "policy.allowed"},
                             {"PolicyList", R"({"command":"x","policy":{"deny":"a"}})", "policy.deny"},
                             {"Place", R"({"command":"x","place":"host"})", "place"},
                             {"Directory", R"({"command":"x","directory":"../x"})", "directory"},
                             {"Network", R"({"command":"x","network":{"mode":"sometimes"}})", "network"},
                             {"NetworkInside", R"({"command":"x","place":"inside","network":"none"})", "network"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Definition, IsNamedLikeAPackage) {
  for (const auto* bad : {"", "a-b", "2a", "class", "a.b", "a/b", "__init__", "a\nb"})
    EXPECT_FALSE(parsed(R"({"command":"x"})", bad)) << bad;
}

TEST(Pattern, HasStars) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*c", "abbc"));
  EXPECT_TRUE(matches("*_file*", "read_file_now"));
  EXPECT_FALSE(matches("a*c", "abcd"));
  EXPECT_FALSE(matches("read", "reads"));
}

}  // namespace
}  // namespace cove::tools
