#include "files/names.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "files/json.hpp"

namespace cove::files {
namespace {

constexpr std::size_t kDepth = 8;

struct Row {
  const char* name;
  std::string given;
  std::string want;
};
class MemberPath : public testing::TestWithParam<Row> {};

TEST_P(MemberPath, IsNormalisedOrRefused) {
  EXPECT_EQ(member_path(GetParam().given, kDepth).value_or("(refused)"), GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, MemberPath,
                         testing::ValuesIn(std::to_array<Row>({
                             {"Plain", "a/b", "a/b"},
                             {"Absolute", "///a/b", "a/b"},
                             {"DotsAndSlashes", "./a//./b/", "a/b"},
                             {"TheDestination", "./", ""},
                             {"Root", "/", ""},
                             {"Empty", "", "(refused)"},
                             {"Climbing", "../x", "(refused)"},
                             {"ClimbingBack", "a/../b", "(refused)"},
                             {"ClimbingAtTheEnd", "a/..", "(refused)"},
                             {"DotsInAName", "a..b/...", "a..b/..."},
                             {"DriveLetter", "C:\\x", "C:\\x"},
                             {"Backslashes", "a\\..\\..\\x", "a\\..\\..\\x"},
                             {"Nul", std::string("a\0b", 3), "(refused)"},
                             {"Newline", "a\nb", "a\nb"},
                             {"NotUtf8", "\xff\xfe", "\xff\xfe"},
                             {"LongestName", std::string(255, 'n'), std::string(255, 'n')},
                             {"NameTooLong", std::string(256, 'n'), "(refused)"},
                             {"PathTooLong", std::string(4097, '/'), "(refused)"},
                             {"Deepest", "1/2/3/4/5/6/7/8", "1/2/3/4/5/6/7/8"},
                             {"TooDeep", "1/2/3/4/5/6/7/8/9", "(refused)"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(LinkTarget, IsInsideAsLongAsItDoesNotClimbAboveTheTree) {
  EXPECT_TRUE(link_stays_inside("l", "a"));
  EXPECT_TRUE(link_stays_inside("l", "a/../b"));
  EXPECT_TRUE(link_stays_inside("d/l", "../a"));
  EXPECT_TRUE(link_stays_inside("d/l", ".."));
  EXPECT_FALSE(link_stays_inside("l", ".."));
  EXPECT_FALSE(link_stays_inside("d/l", "../.."));
  EXPECT_FALSE(link_stays_inside("l", "a/../../b"));
  EXPECT_FALSE(link_stays_inside("l", "/a"));
  EXPECT_FALSE(link_stays_inside("l", ""));
}

TEST(AbsolutePath, StartsInTheWorkspaceUnlessItSaysOtherwise) {
  EXPECT_EQ(absolute_path("a/b").value(), "/workspace/a/b");
  EXPECT_EQ(absolute_path(".").value(), "/workspace");
  EXPECT_EQ(absolute_path("//tmp/./x//").value(), "/tmp/x");
  EXPECT_EQ(absolute_path("/").value(), "/");
  EXPECT_EQ(absolute_path("../x").value(), "/workspace/../x");
  EXPECT_EQ(absolute_path("").error().code, Errc::invalid);
  EXPECT_EQ(absolute_path(std::string(5000, 'a')).error().code, Errc::invalid);
  EXPECT_EQ(absolute_path(std::string_view("a\0b", 3)).error().code, Errc::invalid);
}

TEST(JsonString, IsValidWhateverTheBytes) {
  EXPECT_EQ(json_string("a\"b\\c\n\x01\x7f"), R"("a\"b\\c\u000a\u0001\u007f")");
  EXPECT_EQ(json_string("\xff"), "\"\xef\xbf\xbd\"");
  EXPECT_EQ(json_string("é"), "\"é\"");
}

TEST(ErrorJson, HasTheCodeTheFrontActsOn) {
  EXPECT_EQ(error_json({.code = Errc::over_limit, .message = "too much"}),
            R"({"code":"too_large","error":"too much"})");
  EXPECT_EQ(error_code({.code = Errc::over_limit, .message = {}, .sys_errno = ENOSPC}), "disk_full");
  EXPECT_EQ(error_code({.code = Errc::over_limit, .message = {}, .sys_errno = EMFILE}), "io");
  EXPECT_EQ(error_code({.code = Errc::io, .message = {}, .sys_errno = ENOTDIR}), "invalid");
  EXPECT_EQ(error_code({.code = Errc::io, .message = {}, .sys_errno = EFBIG}), "too_large");
}

}  // namespace
}  // namespace cove::files
