#include "doors/execute/requests.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>

namespace cove::doors::execute {
namespace {

using fastapi::read_body;
using testing::HasSubstr;

// "ok", or the list of what is wrong.
std::string problems_of(std::string_view body, std::string_view content_type = "application/json") {
  const auto read = read_body(body, content_type);
  if (const auto* problems = std::get_if<Problems>(&read)) return problems->list;
  if (std::holds_alternative<std::monostate>(read)) return "unreadable";
  const auto parsed = parse_execute(std::get<Value>(read));
  const auto* problems = std::get_if<Problems>(&parsed);
  return problems == nullptr ? "ok" : problems->list;
}

ExecuteRequest request_of(std::string_view body) {
  return std::get<ExecuteRequest>(parse_execute(std::get<Value>(read_body(body, ""))));
}

struct Row {
  const char* name;
  std::string_view body;
  std::string_view want;
};
class Shapes : public testing::TestWithParam<Row> {};

TEST_P(Shapes, AreJudgedAsPydanticJudges) {
  EXPECT_EQ(problems_of(GetParam().body), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    , Shapes,
    testing::ValuesIn(std::to_array<Row>({
        {"Least", R"({"code": ""})", "ok"},
        {"Everything",
         R"({"code": "1", "stdin": "x", "timeout_ms": 1, "last_line_interactive": false, "files": [], "more": 1})",
         "ok"},
        {"NoBody", "", R"([{"type":"missing","loc":["body"],"msg":"Field required","input":null}])"},
        {"Null", "null", R"([{"type":"missing","loc":["body"],"msg":"Field required","input":null}])"},
        {"List", "[1]",
         R"([{"type":"model_attributes_type","loc":["body"],"msg":"Input should be a valid dictionary or object to extract fields from","input":[1]}])"},
        {"Malformed", R"({"code": })",
         R"([{"type":"json_invalid","loc":["body",9],"msg":"JSON decode error","input":{},"ctx":{"error":"Expecting value"}}])"},
        {"TwoProblems", R"({"timeout_ms": 0})",
         R"([{"type":"missing","loc":["body","code"],"msg":"Field required","input":{"timeout_ms":0}},{"type":"greater_than_equal","loc":["body","timeout_ms"],"msg":"Input should be greater than or equal to 1","input":0,"ctx":{"ge":1}}])"},
        {"CodeIsANumber", R"({"code": 5})",
         R"([{"type":"string_type","loc":["body","code"],"msg":"Input should be a valid string","input":5}])"},
        {"StdinIsANumber", R"({"code": "", "stdin": 5})",
         R"([{"type":"string_type","loc":["body","stdin"],"msg":"Input should be a valid string","input":5}])"},
        {"RealTime", R"({"code": "", "timeout_ms": 2000.0})",
         R"([{"type":"int_type","loc":["body","timeout_ms"],"msg":"Input should be a valid integer","input":2000.0}])"},
        {"TextTime", R"({"code": "", "timeout_ms": "5"})",
         R"([{"type":"int_type","loc":["body","timeout_ms"],"msg":"Input should be a valid integer","input":"5"}])"},
        {"TrueTime", R"({"code": "", "timeout_ms": true})",
         R"([{"type":"int_type","loc":["body","timeout_ms"],"msg":"Input should be a valid integer","input":true}])"},
        {"NullTime", R"({"code": "", "timeout_ms": null})",
         R"([{"type":"int_type","loc":["body","timeout_ms"],"msg":"Input should be a valid integer","input":null}])"},
        {"NullBool", R"({"code": "", "last_line_interactive": null})",
         R"([{"type":"bool_type","loc":["body","last_line_interactive"],"msg":"Input should be a valid boolean","input":null}])"},
        {"HalfBool", R"({"code": "", "last_line_interactive": 0.5})",
         R"([{"type":"bool_type","loc":["body","last_line_interactive"],"msg":"Input should be a valid boolean","input":0.5}])"},
        {"TwoBool", R"({"code": "", "last_line_interactive": 2})",
         R"([{"type":"bool_parsing","loc":["body","last_line_interactive"],"msg":"Input should be a valid boolean, unable to interpret input","input":2}])"},
        {"MaybeBool", R"({"code": "", "last_line_interactive": "maybe"})",
         R"([{"type":"bool_parsing","loc":["body","last_line_interactive"],"msg":"Input should be a valid boolean, unable to interpret input","input":"maybe"}])"},
        {"NullFiles", R"({"code": "", "files": null})",
         R"([{"type":"list_type","loc":["body","files"],"msg":"Input should be a valid list","input":null}])"},
        {"FileIsText", R"({"code": "", "files": ["x"]})",
         R"([{"type":"model_attributes_type","loc":["body","files",0],"msg":"Input should be a valid dictionary or object to extract fields from","input":"x"}])"},
        {"FileWithoutId", R"({"code": "", "files": [{"path": "a", "file_id": "b"}, {"path": 1, "content": ""}]})",
         R"([{"type":"string_type","loc":["body","files",1,"path"],"msg":"Input should be a valid string","input":1},{"type":"missing","loc":["body","files",1,"file_id"],"msg":"Field required","input":{"path":1,"content":""}}])"},
    })),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Requests, HaveTheirDefaults) {
  const auto request = request_of(R"({"code": "x"})");
  EXPECT_EQ(request.timeout.count(), 2000);
  EXPECT_TRUE(request.echo);
  EXPECT_EQ(request.input, std::nullopt);
  EXPECT_EQ(request_of(R"({"code": "x", "stdin": null})").input, std::nullopt);
  EXPECT_EQ(request_of(R"({"code": "x", "stdin": ""})").input, "");
}

TEST(Requests, TakeManyWordsForTrueAndFalse) {
  for (const auto* word : {"true", "1", "1.0", "\"TRUE\"", "\"yes\"", "\"On\"", "\"t\"", "\"y\"", "\"1\""})
    EXPECT_TRUE(request_of(fmt::format(R"({{"code":"","last_line_interactive":{}}})", word)).echo) << word;
  for (const auto* word : {"false", "0", "0.0", "\"False\"", "\"no\"", "\"off\"", "\"F\"", "\"n\"", "\"0\""})
    EXPECT_FALSE(request_of(fmt::format(R"({{"code":"","last_line_interactive":{}}})", word)).echo) << word;
}

TEST(Requests, AHugeTimeIsStillANumber) {
  EXPECT_GT(request_of(R"({"code": "", "timeout_ms": 999999999999999999999999})").timeout, std::chrono::hours(1));
  EXPECT_THAT(problems_of(R"({"code": "", "timeout_ms": -999999999999999999999999})"), HasSubstr("greater_than_equal"));
}

TEST(Requests, HalfASurrogatePairIsNoText) {
  EXPECT_THAT(problems_of(R"({"code": "\ud800"})"), HasSubstr("string_unicode"));
}

TEST(Requests, AreJsonByTheirContentType) {
  for (const auto* good : {"", "application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"})
    EXPECT_EQ(problems_of(R"({"code": ""})", good), "ok") << good;
  for (const auto* other : {"text/plain", "application/x-www-form-urlencoded", "json", "application/jsonx"})
    EXPECT_EQ(
        problems_of(R"({"code": ""})", other),
        R"([{"type":"model_attributes_type","loc":["body"],"msg":"Input should be a valid dictionary or object to extract fields from","input":"{\"code\": \"\"}"}])")
        << other;
  EXPECT_THAT(problems_of("", "text/plain"), HasSubstr("missing"));
  EXPECT_EQ(problems_of("{\"code\": \"\xff\"}"), "unreadable");
}

TEST(Requests, SessionsAndCommandsHaveTheirOwn) {
  const auto session = [](std::string_view body) { return parse_session(std::get<Value>(read_body(body, ""))); };
  EXPECT_EQ(std::get<SessionRequest>(session("{}")).ttl.count(), 900);
  EXPECT_EQ(std::get<SessionRequest>(session(R"({"ttl_seconds": 86400})")).ttl.count(), 86'400);
  EXPECT_EQ(
      std::get<Problems>(session(R"({"ttl_seconds": 86401})")).list,
      R"([{"type":"less_than_equal","loc":["body","ttl_seconds"],"msg":"Input should be less than or equal to 86400","input":86401,"ctx":{"le":86400}}])");
  EXPECT_THAT(std::get<Problems>(session(R"({"ttl_seconds": 0})")).list, HasSubstr("greater_than_equal"));
  const auto bash = [](std::string_view body) { return parse_bash(std::get<Value>(read_body(body, ""))); };
  EXPECT_EQ(std::get<BashRequest>(bash(R"({"cmd": "ls"})")).timeout.count(), 30'000);
  EXPECT_THAT(std::get<Problems>(bash("{}")).list, HasSubstr(R"("loc":["body","cmd"])"));
}

struct PathRow {
  const char* name;
  std::string_view given;
  std::string_view want;
};
class StagedPath : public testing::TestWithParam<PathRow> {};

TEST_P(StagedPath, IsNormalOrRefused) {
  const auto path = staged_path(GetParam().given, Entrypoint::reserved);
  const auto* problems = std::get_if<Problems>(&path);
  EXPECT_EQ(problems == nullptr ? std::get<std::string>(path) : problems->list, GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    , StagedPath,
    testing::ValuesIn(std::to_array<PathRow>({
        {"Absolute", "/etc/x", "\"File paths must be relative.\""},
        {"Up", "../x", "\"File paths must not contain '..'.\""},
        {"UpInside", "a/../b", "\"File paths must not contain '..'.\""},
        {"Empty", "", "\"File path must not be empty.\""},
        {"Dot", ".", "\"File path must not be empty.\""},
        {"DotSlash", "./", "\"File path must not be empty.\""},
        {"Entrypoint", "__main__.py", "\"File path '__main__.py' is reserved for the execution entrypoint.\""},
        {"DottedEntrypoint", "./__main__.py", "\"File path '__main__.py' is reserved for the execution entrypoint.\""},
        {"Nul", {"a\0b", 3}, "\"File paths must not contain NUL.\""},
        {"Plain", "a.txt", "a.txt"},
        {"Doubled", "a//b/./c/", "a/b/c"},
        {"DeepEntrypoint", "sub/__main__.py", "sub/__main__.py"},
        {"Odd", "...\\~ \xc3\xa9", "...\\~ \xc3\xa9"},
        {"Hidden", ".env", ".env"},
    })),
    [](const auto& row) { return std::string(row.param.name); });

TEST(StagedPaths, OfASessionMayBeAnything) {
  EXPECT_EQ(std::get<std::string>(staged_path("__main__.py", Entrypoint::allowed)), "__main__.py");
}

}  // namespace
}  // namespace cove::doors::execute
