#include "fastapi/checker.hpp"

#include <gmock/gmock.h>

#include <array>

namespace cove::fastapi {
namespace {

using testing::HasSubstr;

Value value_of(std::string_view json) {
  return std::get<Value>(parse_json(json));
}

struct Row {
  const char* name;
  std::string_view json;
  std::int64_t want;           // -1: refused
  std::string_view type = {};  // of the complaint
};
class Integers : public testing::TestWithParam<Row> {};

TEST_P(Integers, AreTakenAsPydanticTakesThem) {
  Checker checker;
  std::int64_t out = -1;
  const auto value = value_of(GetParam().json);
  checker.integer(&value, "\"body\",\"mode\"", out);
  EXPECT_EQ(out, GetParam().want);
  EXPECT_EQ(checker.good(), GetParam().type.empty());
  if (!checker.good()) EXPECT_THAT(checker.problems().list, HasSubstr(GetParam().type));
}

INSTANTIATE_TEST_SUITE_P(, Integers,
                         testing::ValuesIn(std::to_array<Row>({
                             {"Whole", "420", 420},
                             {"WholeAsReal", "420.0", 420},
                             {"Text", R"(" 420 ")", 420},
                             {"Plus", R"("+7")", 7},
                             {"True", "true", 1},
                             {"TooLarge", "99999999999999999999", INT64_MAX},
                             {"Fraction", "1.5", -1, "int_from_float"},
                             {"Words", R"("many")", -1, "int_parsing"},
                             {"Empty", R"("")", -1, "int_parsing"},
                             {"List", "[1]", -1, "int_type"},
                             {"NotANumber", "NaN", -1, "int_from_float"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Texts, NameTheItemThatIsNone) {
  Checker checker;
  std::vector<std::string> out;
  const auto value = value_of(R"(["a",2])");
  checker.texts(&value, "\"body\",\"args\"", out);
  EXPECT_EQ(checker.problems().list,
            R"([{"type":"string_type","loc":["body","args",1],"msg":"Input should be a valid string","input":2}])");
}

TEST(Dictionaries, AreObjects) {
  Checker checker;
  Value out;
  const auto value = value_of("[1]");
  checker.dictionary(&value, "\"body\",\"event\"", out);
  EXPECT_THAT(checker.problems().list, HasSubstr("dict_type"));
}

}  // namespace
}  // namespace cove::fastapi
