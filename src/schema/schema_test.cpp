#include "schema/schema.hpp"

#include <gtest/gtest.h>

#include <string>

namespace cove::schema {
namespace {

namespace json = boost::json;

std::string fault_of(std::string_view schema, std::string_view value, Limits limits = {}) {
  const auto fault = find_fault(json::parse(json::string_view(schema.data(), schema.size())).as_object(),
                                json::parse(json::string_view(value.data(), value.size())), limits);
  return fault.value_or("");
}

struct Row {
  const char* name;
  std::string_view schema;
  std::string_view good;  // "" for none
  std::string_view bad;
  std::string_view fault;
};
class Keywords : public testing::TestWithParam<Row> {};

TEST_P(Keywords, AdmitTheGoodAndNameTheFaultOfTheBad) {
  const auto& row = GetParam();
  if (!row.good.empty()) EXPECT_EQ(fault_of(row.schema, row.good), "");
  if (!row.bad.empty()) EXPECT_EQ(fault_of(row.schema, row.bad), row.fault);
}
INSTANTIATE_TEST_SUITE_P(
    , Keywords,
    testing::ValuesIn(std::to_array<Row>({
        {"Type", R"({"type":"string"})", R"("x")", "1", " must be a string"},
        {"IntegerTakesAWholeNumber", R"({"type":"integer"})", "3.0", "3.5", " must be an integer"},
        {"Types", R"({"type":["string","null"]})", "null", "1", " must be a string or null"},
        {"Required", R"({"required":["a"]})", R"({"a":1})", "{}", R"( must have "a")"},
        {"Property", R"({"properties":{"a":{"type":"number"}}})", R"({"a":1})", R"({"a":"1"})", ".a must be a number"},
        {"DeepPlace", R"({"properties":{"a":{"items":{"properties":{"b":{"type":"boolean"}}}}}})",
         R"({"a":[{"b":true}]})", R"({"a":[{},{"b":1}]})", ".a[1].b must be true or false"},
        {"AdditionalProperties", R"({"properties":{"a":true},"additionalProperties":false})", R"({"a":1})",
         R"({"b":1})", R"( must not have a member "b")"},
        {"PatternProperties", R"({"patternProperties":{"^x":{"type":"number"}},"additionalProperties":false})",
         R"({"x1":1})", R"({"x1":"a"})", ".x1 must be a number"},
        {"PropertyNames", R"({"propertyNames":{"pattern":"^[a-z]+$"}})", R"({"ab":1})", R"({"A":1})",
         R"( must not have a member "A")"},
        {"Enum", R"({"enum":["a",1]})", "1.0", R"("b")", R"( must be one of ["a",1])"},
        {"Const", R"({"const":{"a":[1,2]}})", R"({"a":[1,2.0]})", R"({"a":[2,1]})", R"( must be {"a":[1,2]})"},
        {"Minimum", R"({"minimum":1})", "1", "0.5", " must be at least 1"},
        {"ExclusiveMaximum", R"({"exclusiveMaximum":10})", "9", "10", " must be below 10"},
        {"LargeNumbers", R"({"maximum":9007199254740992})", "9007199254740992", "9007199254740993",
         " must be at most 9007199254740992"},
        {"MultipleOf", R"({"multipleOf":0.1})", "0.3", "0.35", " must be a multiple of 1E-1"},
        {"LengthInCharacters", R"({"maxLength":2})", "\"\xC3\xA9\xC3\xA9\"", R"("abc")",
         " must have at most 2 characters"},
        {"Pattern", R"({"pattern":"^a"})", R"("ab")", R"("ba")", R"( must match the pattern "^a")"},
        {"ItemsCount", R"({"minItems":1,"maxItems":2})", "[1]", "[]", " must have at least 1 items"},
        {"Unique", R"({"uniqueItems":true})", R"([1,"1"])", "[1,1.0]", " must not have the same item twice"},
        {"PrefixItems", R"({"prefixItems":[{"type":"string"}],"items":{"type":"number"}})", R"(["a",1])",
         R"(["a","b"])", "[1] must be a number"},
        {"Contains", R"({"contains":{"const":1},"maxContains":1})", "[0,1]", "[1,1]",
         " must have at most 1 items as `contains` describes them"},
        {"AllOf", R"({"allOf":[{"type":"number"},{"minimum":2}]})", "2", "1", " must be at least 2"},
        {"AnyOf", R"({"anyOf":[{"type":"string"},{"type":"null"}]})", "null", "1",
         " fits none of the possibilities (anyOf)"},
        {"OneOf", R"({"oneOf":[{"type":"integer"},{"minimum":2}]})", "1", "3",
         " fits 2 of the possibilities, and must fit one (oneOf)"},
        {"Not", R"({"not":{"type":"null"}})", "1", "null", " fits what it must not (not)"},
        {"IfThenElse",
         R"({"if":{"properties":{"k":{"const":"a"}},"required":["k"]},"then":{"required":["x"]},"else":{"required":["y"]}})",
         R"({"k":"a","x":1})", R"({"k":"b"})", R"( must have "y")"},
        {"DependentRequired", R"({"dependentRequired":{"a":["b"]}})", R"({"a":1,"b":2})", R"({"a":1})",
         R"( must have "b" beside "a")"},
        {"Reference", R"({"$defs":{"n":{"type":"number"}},"properties":{"a":{"$ref":"#/$defs/n"}}})", R"({"a":1})",
         R"({"a":""})", ".a must be a number"},
        {"EscapedReference", R"({"$defs":{"a/b~c":{"type":"number"}},"$ref":"#/$defs/a~1b~0c"})", "1", "\"\"",
         " must be a number"},
        {"Anchor", R"({"$defs":{"n":{"$anchor":"num","type":"number"}},"$ref":"#num"})", "1", "\"\"",
         " must be a number"},
        {"Recursion", R"({"properties":{"child":{"$ref":"#"}},"additionalProperties":false})",
         R"({"child":{"child":{}}})", R"({"child":{"x":1}})", R"(.child must not have a member "x")"},
        {"EmbeddedId", R"({"$defs":{"x":{"$id":"https://e.example/x","type":"number"}},"$ref":"https://e.example/x"})",
         "1", "\"\"", " must be a number"},
        {"ReferenceElsewhereSaysNothing", R"({"properties":{"p":{"$ref":"https://e.example/y"}}})", R"({"p":[1]})", "",
         ""},
        {"SiblingsOfAReference", R"({"$defs":{"n":{}},"$ref":"#/$defs/n","type":"string"})", "\"\"", "1",
         " must be a string"},
        {"SiblingsOfAReferenceInDraft7",
         R"({"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{}},"$ref":"#/definitions/n","type":"string"})",
         "1", "", ""},
        {"ItemsInDraft7",
         R"({"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false})",
         R"(["a"])", R"(["a",1])", "[1] must not be there"},
        {"DependenciesInDraft7",
         R"({"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":{"required":["b"]}}})",
         R"({"b":1})", R"({"a":1})", R"( must have "b")"},
        {"UnevaluatedProperties", R"({"allOf":[{"properties":{"a":true}}],"unevaluatedProperties":false})",
         R"({"a":1})", R"({"b":1})", ".b must not be there"},
        {"UnevaluatedOfABranch",
         R"({"anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},true],"unevaluatedProperties":false})",
         R"({"a":1})", R"({"a":2})", ".a must not be there"},
        {"UnevaluatedItems", R"({"prefixItems":[true],"contains":{"const":9},"unevaluatedItems":false})", "[1,9]",
         "[1,9,2]", "[2] must not be there"},
        {"FormatIsARemark", R"({"format":"email"})", "\"x\"", "", ""},
        {"FalseSchema", R"({"properties":{"a":false}})", "{}", R"({"a":1})", ".a must not be there"},
    })),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Schema, ThatIsCircularOrCostlyIsRefusedInBoundedTime) {
  EXPECT_EQ(fault_of(R"({"$ref":"#"})", "1"), " cannot be checked: the schema is too deep or too costly");
  std::string bomb = R"({"$defs":{"d0":{"type":"number"})";
  for (int i = 1; i < 30; ++i)
    bomb += R"(,"d)" + std::to_string(i) + R"(":{"anyOf":[{"$ref":"#/$defs/d)" + std::to_string(i - 1) +
            R"("},{"$ref":"#/$defs/d)" + std::to_string(i - 1) + R"("}]})";
  bomb += R"(},"$ref":"#/$defs/d29"})";
  EXPECT_EQ(fault_of(bomb, "\"x\""), " cannot be checked: the schema is too deep or too costly");
}

TEST(Schema, ComparesManyItemsOnlyOnce) {
  std::string items = "[0";
  for (int i = 1; i < 50'000; ++i) items += "," + std::to_string(i);
  EXPECT_EQ(fault_of(R"({"uniqueItems":true})", items + "]"), "");
}

}  // namespace
}  // namespace cove::schema
