#include "doors/resources/requests.hpp"

#include <gmock/gmock.h>

#include <array>

namespace cove::doors::resources {
namespace {

struct Row {
  const char* name;
  std::string_view given;
  std::string_view want;  // "!": refused
};
class Path : public testing::TestWithParam<Row> {};

TEST_P(Path, IsRelativeOrRefused) {
  EXPECT_EQ(relative_path(GetParam().given).value_or("!"), GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, Path,
                         testing::ValuesIn(std::to_array<Row>({
                             {"File", "a.txt", "a.txt"},
                             {"Nested", "a/b/c", "a/b/c"},
                             {"Nothing", "", ""},
                             {"Dot", ".", ""},
                             {"DotsInNames", "..a/b..", "..a/b.."},
                             {"Superfluous", "a//./b/", "a/b"},
                             {"UpAndDown", "a/../b", "b"},
                             {"UpToTheTop", "a/..", ""},
                             {"Up", "..", "!"},
                             {"UpAndOut", "a/../../b", "!"},
                             {"Absolute", "/etc/passwd", "!"},
                             {"Backslash", "a\\..\\b", "a\\..\\b"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Member, IsTheOneTheHelperNames) {
  EXPECT_EQ(named_member("member '../x' has '..' in its path"), "../x");
  EXPECT_EQ(named_member("link 'a/l' points outside, to '/etc'"), "a/l");
  EXPECT_EQ(named_member("hard link 'h' points to 'x', which is not an earlier file of the archive"), "h");
  EXPECT_EQ(named_member("not a valid archive: Unrecognized archive format"), "");
  EXPECT_EQ(named_member("member 'x"), "");
}

TEST(Modules, AreAskedForByName) {
  http::Request request;
  request.queries = {{"q", "json"}, {"x", "y"}, {"q", "a.b"}};
  EXPECT_THAT(std::get<std::vector<std::string>>(parse_modules(request)), testing::ElementsAre("json", "a.b"));
  const auto none = parse_modules(http::Request{});
  EXPECT_EQ(std::get<fastapi::Problems>(none).list,
            R"([{"type":"missing","loc":["query","q"],"msg":"Field required","input":null}])");
}

}  // namespace
}  // namespace cove::doors::resources
