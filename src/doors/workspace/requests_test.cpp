#include "doors/workspace/requests.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>

namespace cove::doors::workspace {
namespace {

struct PathRow {
  const char* name;
  std::string_view given;
  std::string_view want;  // "!…": refused so
};
class SessionPath : public testing::TestWithParam<PathRow> {};

TEST_P(SessionPath, IsNormalisedOrRefused) {
  const auto path = session_path(GetParam().given);
  EXPECT_EQ(path ? *path : "!" + path.error().message, GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, SessionPath,
                         testing::ValuesIn(std::to_array<PathRow>({
                             {"Plain", "a/b.txt", "a/b.txt"},
                             {"LeadingSlashes", "//a/b", "a/b"},
                             {"TrailingSlashes", "a/b//", "a/b"},
                             {"Root", "/", ""},
                             {"Empty", "", ""},
                             {"Here", "./x", "x"},
                             {"Dots", "a...b/.hidden", "a...b/.hidden"},
                             {"Unicode", "数据 1/文件.txt", "数据 1/文件.txt"},
                             {"UpFirst", "../x", "!child path cannot start with '.' or '..'"},
                             {"UpFirstAfterSlash", "/../x", "!child path cannot start with '.' or '..'"},
                             {"UpAfterHere", "./../x", "!child path cannot start with '.' or '..'"},
                             {"UpLater", "a/../x", "!child path cannot contain '..'"},
                             {"UpLast", "a/..", "!child path cannot contain '..'"},
                             {"Nul", std::string_view("a\0b", 3), "!child path cannot contain NUL"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

struct SizeRow {
  const char* name;
  std::string_view given;
  std::optional<std::uint64_t> want;
};
class TmpfsSize : public testing::TestWithParam<SizeRow> {};

TEST_P(TmpfsSize, IsReadAsTheKernelReadsIt) {
  const auto size = tmpfs_size(GetParam().given, 1000);
  EXPECT_EQ(size ? std::optional(*size) : std::nullopt, GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, TmpfsSize,
                         testing::ValuesIn(std::to_array<SizeRow>({
                             {"Bytes", "65536", 65536},
                             {"Kilo", "64k", 65536},
                             {"Mega", "50M", 50ULL << 20},
                             {"SmallLetter", "50m", 50ULL << 20},
                             {"Giga", "1G", 1ULL << 30},
                             {"Percent", "10%", 100},
                             {"NoLimit", "0", UINT64_MAX},
                             {"Overflow", "99999999999G", UINT64_MAX},
                             {"MoreThanAnyNumber", "999999999999999999999999", UINT64_MAX},
                             {"Empty", "", std::nullopt},
                             {"Words", "big", std::nullopt},
                             {"TwoLetters", "50MB", std::nullopt},
                             {"Negative", "-1", std::nullopt},
                             {"Fraction", "1.5G", std::nullopt},
                             {"PercentOfNothing", "%", std::nullopt},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

template <typename T>
std::string problems_of(Parsed<T> (*parse)(const Value&), std::string_view body) {
  const auto parsed = parse(std::get<Value>(fastapi::parse_json(body)));
  const auto* problems = std::get_if<Problems>(&parsed);
  return problems == nullptr ? "ok" : problems->list;
}

TEST(Shapes, OptionalFieldsMayBeNull) {
  EXPECT_EQ(problems_of(parse_session, R"({"size":null})"), "ok");
  EXPECT_EQ(problems_of(parse_cleanup, R"({"force":null})"), "ok");
  EXPECT_EQ(problems_of(parse_file, R"({"content":"","filename":"f","mode":null})"), "ok");
  EXPECT_EQ(problems_of(parse_command, R"({"command":"x","args":null})"), "ok");
  EXPECT_EQ(
      problems_of(parse_script, R"({"code":"","filename":null,"args":null,"script_type":null,"output_params":null})"),
      "ok");
  EXPECT_EQ(problems_of(parse_handler, R"({"handler_code":"","context":null})"), "ok");
}

TEST(Shapes, ThoseOfAnotherKindAreNamed) {
  EXPECT_EQ(problems_of(parse_session, R"({"size":5})"),
            R"([{"type":"string_type","loc":["body","size"],"msg":"Input should be a valid string","input":5}])");
  EXPECT_EQ(problems_of(parse_handler, R"({"handler_code":"","event":null})"),
            R"([{"type":"dict_type","loc":["body","event"],"msg":"Input should be a valid dictionary","input":null}])");
  EXPECT_THAT(problems_of(parse_file, R"({"filename":1})"),
              testing::HasSubstr(R"(["body","content"],"msg":"Field required")"));
  EXPECT_THAT(problems_of(parse_command, "[]"), testing::HasSubstr("model_attributes_type"));
}

TEST(Shapes, AModeOfNothingIsTheUsualOne) {
  const auto parsed = parse_file(std::get<Value>(fastapi::parse_json(R"({"content":"","filename":"f","mode":0})")));
  EXPECT_EQ(std::get<FileRequest>(parsed).mode, 0644);
}

TEST(Queries, AreReadAsPydanticReadsThem) {
  const Query query{{"offset", "7"}, {"recursive", "True"}};
  EXPECT_TRUE(std::get<bool>(flag_of(query, "recursive", false)));
  EXPECT_FALSE(std::get<bool>(flag_of({}, "recursive", false)));
  EXPECT_THAT(std::get<Problems>(flag_of({{"recursive", "maybe"}}, "recursive", false)).list,
              testing::HasSubstr(R"("loc":["query","recursive"])"));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(numbers_of(query, {{"offset", 0}, {"buffer_size", 4096}})),
            (std::vector<std::int64_t>{7, 4096}));
  EXPECT_THAT(std::get<Problems>(numbers_of({{"offset", "x"}}, {{"offset", 0}})).list,
              testing::HasSubstr("unable to parse string as an integer"));
}

TEST(Names, TellWhatAFileIs) {
  EXPECT_EQ(type_of("a/b.tar.gz"), "gz");
  EXPECT_EQ(type_of("a.d/Makefile"), "unknown");
  EXPECT_TRUE(is_text_file("a/B.TXT"));
  EXPECT_FALSE(is_text_file("a/.txt"));
  EXPECT_FALSE(is_text_file("a"));
  EXPECT_EQ(preview_type("x.PNG"), "image/png");
  EXPECT_EQ(preview_type("x.exe"), std::nullopt);
}

}  // namespace
}  // namespace cove::doors::workspace
