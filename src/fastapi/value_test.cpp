#include "fastapi/value.hpp"

#include <gmock/gmock.h>

#include <array>

namespace cove::fastapi {
namespace {

struct Row {
  const char* name;
  std::string given;
  std::string want;  // the value again; "position message"; or "unreadable"
};
class Json : public testing::TestWithParam<Row> {};

std::string outcome(std::string_view text) {
  const auto parsed = parse_json(text);
  if (const auto* value = std::get_if<Value>(&parsed)) return to_json(*value);
  if (const auto* malformed = std::get_if<Malformed>(&parsed))
    return std::to_string(malformed->position) + " " + malformed->message;
  return "unreadable";
}

TEST_P(Json, IsReadAsPythonReadsIt) {
  EXPECT_EQ(outcome(GetParam().given), GetParam().want);
}

// What CPython 3.11 says of each: tests/contract/test_execute_validation.py asks it again.
INSTANTIATE_TEST_SUITE_P(, Json,
                         testing::ValuesIn(std::to_array<Row>({
                             {"Everything", R"( {"a": [1, -2.50, true, false, null, "x\n\u00e9"], "b": {}} )",
                              "{\"a\":[1,-2.5,true,false,null,\"x\\n\xc3\xa9\"],\"b\":{}}"},
                             {"LastOfTwo", R"({"a": 1, "b": 2, "a": 3})", R"({"a":3,"b":2})"},
                             {"BigWhole", "123456789012345678901234567890", "123456789012345678901234567890"},
                             {"MinusZero", "-0", "0"},
                             {"RealStaysReal", "[1.0, 1e5, 1E400, NaN, -Infinity]", "[1.0,100000.0,null,null,null]"},
                             {"Pair", R"("\ud83d\ude00")", "\"\xf0\x9f\x98\x80\""},
                             {"HalfAPair", R"("\ud83dx")", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx\""},
                             {"ByteOrderMark", "\xef\xbb\xbf{}", "{}"},
                             {"Nothing", "", "0 Expecting value"},
                             {"Blanks", "  ", "2 Expecting value"},
                             {"Word", "nul", "0 Expecting value"},
                             {"Extra", "{} x", "3 Extra data"},
                             {"LeadingZero", "01", "1 Extra data"},
                             {"Minus", "-", "0 Expecting value"},
                             {"PointAlone", "1.", "1 Extra data"},
                             {"OpenArray", "[", "1 Expecting value"},
                             {"CommaAtTheEnd", "[1,]", "3 Expecting value"},
                             {"NoComma", "[1 2]", "3 Expecting ',' delimiter"},
                             {"OpenObject", "{", "1 Expecting property name enclosed in double quotes"},
                             {"NameWithoutQuotes", "{a: 1}", "1 Expecting property name enclosed in double quotes"},
                             {"ObjectCommaAtTheEnd", R"({"a":1, })",
                              "8 Expecting property name enclosed in double quotes"},
                             {"NoColon", R"({"a" 1})", "5 Expecting ':' delimiter"},
                             {"NoValue", R"({"code": })", "9 Expecting value"},
                             {"NoCommaInObject", R"({"a":1 "b":2})", "7 Expecting ',' delimiter"},
                             {"OpenText", R"({"a": "x)", "6 Unterminated string starting at"},
                             {"OpenEscape", R"("x\)", "0 Unterminated string starting at"},
                             {"BadEscape", R"("ab\x")", "3 Invalid \\escape"},
                             {"BadHex", R"("\u12G4x")", "2 Invalid \\uXXXX escape"},
                             {"ShortHex", R"("\u12)", "2 Invalid \\uXXXX escape"},
                             {"Control", "\"a\nb\"", "2 Invalid control character at"},
                             {"PlacesAreCharacters", "[\"h\xc3\xa9\xf0\x9f\x98\x80\" x]", "7 Expecting ',' delimiter"},
                             {"NotUtf8", "\"\xff\"", "unreadable"},
                             {"TooDeep", std::string(2000, '['), "unreadable"},
                             {"TooLongANumber", std::string(5000, '1'), "unreadable"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(JsonValues, ManyValuesAreTooMany) {
  std::string text = "[0";
  for (int i = 0; i < 200'000; ++i) text += ",0";
  EXPECT_EQ(outcome(text + "]"), "unreadable");
}

}  // namespace
}  // namespace cove::fastapi
