#include <gmock/gmock.h>

#include <array>
#include <boost/json.hpp>

#include "tools/codegen/literal.hpp"
#include "tools/codegen/models.hpp"
#include "tools/codegen/names.hpp"
#include "tools/codegen/package.hpp"
#include "tools/codegen/pattern.hpp"

namespace cove::tools::codegen {
namespace {

namespace json = boost::json;
using testing::HasSubstr;
using testing::Not;

std::string classes_of(std::string_view schema) {
  Models models;
  const auto added = models.add_root(json::parse(schema).as_object(), "Params");
  return added ? models.classes() : added.error().message;
}

// Of a property `p`.
std::string classes_with(std::string_view property, bool required) {
  return classes_of(std::string(R"({"type":"object","properties":{"p":)") + std::string(property) + "}" +
                    (required ? R"(,"required":["p"]})" : "}"));
}

struct Row {
  const char* name;
  std::string_view schema;  // of the property p
  std::string_view want;    // a line of the class, or a whole class
  bool required = true;
};
class Mapping : public testing::TestWithParam<Row> {};

TEST_P(Mapping, GivesTheTypeOfTheTable) {
  EXPECT_THAT(classes_with(GetParam().schema, GetParam().required), HasSubstr(std::string(GetParam().want)));
}
INSTANTIATE_TEST_SUITE_P(
    , Mapping,
    testing::ValuesIn(std::to_array<Row>({
        {"Required", R"({"type":"string"})", "    p: str\n"},
        {"Optional", R"({"type":"string"})", "    p: Optional[str] = None\n", false},
        {"Default", R"({"type":"integer","default":3})", "    p: Optional[int] = 3\n", false},
        {"DefaultText", R"({"type":"string","default":"a\"b"})", "    p: Optional[str] = \"a\\\"b\"\n", false},
        {"DefaultOfAnotherType", R"({"type":"integer","default":"x"})", "    p: Optional[int] = None\n", false},
        {"Integer", R"({"type":"integer"})", "    p: int\n"},
        {"Number", R"({"type":"number"})", "    p: float\n"},
        {"Boolean", R"({"type":"boolean"})", "    p: bool\n"},
        {"BareObject", R"({"type":"object"})", "    p: Dict[str, Any]\n"},
        {"ObjectOf", R"({"type":"object","additionalProperties":{"type":"integer"}})", "    p: Dict[str, int]\n"},
        {"ObjectWithProperties", R"({"type":"object","properties":{"a":{"type":"string"}},"required":["a"]})",
         "class P(BaseModel):\n    a: str\n\n\nclass Params(BaseModel):\n    p: P\n"},
        {"ArrayOf", R"({"type":"array","items":{"type":"string"}})", "    p: List[str]\n"},
        {"ArrayOfAnything", R"({"type":"array"})", "    p: List[Any]\n"},
        {"EnumOfTexts", R"({"type":"string","enum":["asc","desc-x"]})",
         "class P(Enum):\n    asc = \"asc\"\n    desc_x = \"desc-x\"\n"},
        {"EnumOfIntegers", R"({"type":"integer","enum":[1,2]})",
         "class P(Enum):\n    integer_1 = 1\n    integer_2 = 2\n"},
        {"EnumKeepsPlainValues", R"({"enum":["a"]})",
         "    model_config = ConfigDict(use_enum_values=True)\n    p: P\n"},
        {"EnumWithNull", R"({"enum":["a",null]})", "    p: Optional[P]\n"},
        {"EnumOfBoth", R"({"enum":["a",1]})", "    p: Literal[\"a\", 1]\n"},
        {"AnyOfNull", R"({"anyOf":[{"type":"string"},{"type":"null"}]})", "    p: Optional[str]\n"},
        {"TypesWithNull", R"({"type":["integer","null"]})", "    p: Optional[int]\n"},
        {"AnyOf", R"({"anyOf":[{"type":"string"},{"type":"integer"}]})", "    p: Union[str, int]\n"},
        {"OneOf", R"({"oneOf":[{"type":"boolean"},{"type":"array","items":{}}]})", "    p: Union[bool, List[Any]]\n"},
        {"Const", R"({"const":"x"})", "    p: Literal[\"x\"] = \"x\"\n"},
        {"Bounds", R"({"type":"integer","minimum":1,"maximum":10})", "    p: conint(ge=1, le=10)\n"},
        {"ExclusiveBounds", R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1.5})",
         "    p: confloat(gt=0, lt=1.5)\n"},
        {"ExclusiveAsOfDraft4", R"({"type":"integer","minimum":0,"exclusiveMinimum":true})", "    p: conint(gt=0)\n"},
        {"TextLimits", R"({"type":"string","minLength":1,"maxLength":5,"pattern":"^[a-z]+$"})",
         "    p: constr(min_length=1, max_length=5, pattern=\"^[a-z]+$\")\n"},
        {"PatternOfOneEngine", R"x({"type":"string","pattern":"^(?=a)b$"})x", "    p: str\n"},
        {"Uri", R"({"type":"string","format":"uri"})", "    p: AnyUrl\n"},
        {"DateTime", R"({"type":"string","format":"date-time"})", "    p: datetime\n"},
        {"Date", R"({"type":"string","format":"date"})", "    p: date\n"},
        {"Time", R"({"type":"string","format":"time"})", "    p: time\n"},
        {"Duration", R"({"type":"string","format":"duration"})", "    p: timedelta\n"},
        {"Uuid", R"({"type":"string","format":"uuid"})", "    p: UUID\n"},
        {"Email", R"({"type":"string","format":"email"})", "    p: EmailStr\n"},
        {"Ipv4", R"({"type":"string","format":"ipv4"})", "    p: IPv4Address\n"},
        {"Byte", R"({"type":"string","format":"byte"})", "    p: str\n"},
        {"Binary", R"({"type":"string","format":"binary"})", "    p: bytes\n"},
        {"Empty", R"({})", "    p: Any\n"},
        {"Title", R"({"type":"string","title":"The P"})", "    p: str = Field(..., title=\"The P\")\n"},
        {"TitleOfOptional", R"({"type":"string","title":"The P"})",
         "    p: Optional[str] = Field(None, title=\"The P\")\n", false},
        {"Description", R"({"type":"string","description":"What it is"})",
         "    p: str\n    \"\"\"\nWhat it is\n\"\"\"\n"},
        {"DeepSchema",
         R"({"type":"array","items":{"type":"object","properties":{"q":{"type":"array","items":{"type":"object","properties":{"r":{"type":"string"}}}}}}})",
         "class Params(BaseModel):\n    p: List[P]\n"},
    })),
    [](const auto& row) { return std::string(row.param.name); });

TEST(Models, NamesWhatAnArrayHoldsInTheSingular) {
  EXPECT_THAT(
      classes_of(
          R"({"properties":{"entries":{"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}}}})"),
      HasSubstr("class Entry(BaseModel):\n    a: Optional[str] = None\n\n\nclass Params(BaseModel):\n"
                "    entries: Optional[List[Entry]] = None\n"));
}

TEST(Models, FollowReferencesIntoDefinitionsAndThemselves) {
  const auto text = classes_of(
      R"({"properties":{"root":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"type":"object","properties":{"next":{"$ref":"#/$defs/Node"}}}}})");
  EXPECT_THAT(text, HasSubstr("class Node(BaseModel):\n    next: Optional[Node] = None\n"));
  EXPECT_THAT(text, HasSubstr("    root: Optional[Node] = None\n"));
  EXPECT_THAT(classes_of(R"({"properties":{"a":{"$ref":"https://example.org/x"}}})"), HasSubstr("    a: Any = None\n"));
  EXPECT_THAT(classes_of(R"({"properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/A"}}})"),
              HasSubstr("    a: Any = None\n"));
}

TEST(Models, MarkWhatForbidsMore) {
  EXPECT_EQ(classes_of(R"({"properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false})"),
            "class Params(BaseModel):\n    model_config = ConfigDict(extra=\"forbid\")\n    a: str\n\n\n");
}

TEST(Models, OfNoPropertiesHaveABody) {
  EXPECT_EQ(classes_of(R"({"type":"object"})"), "class Params(BaseModel):\n    pass\n\n\n");
}

TEST(Models, GiveInvalidNamesAnAlias) {
  const auto text = classes_of(
      R"({"properties":{"my-param":{"type":"string"},"class":{"type":"string"},"_x":{"type":"string"},"2fa":{"type":"string"},"my.param":{"type":"string"}},"required":["my-param","class","_x","2fa"]})");
  EXPECT_THAT(text, HasSubstr("    my_param: str = Field(..., alias=\"my-param\")\n"));
  EXPECT_THAT(text, HasSubstr("    class_: str = Field(..., alias=\"class\")\n"));
  EXPECT_THAT(text, HasSubstr("    field_x: str = Field(..., alias=\"_x\")\n"));
  EXPECT_THAT(text, HasSubstr("    field_2fa: str = Field(..., alias=\"2fa\")\n"));
  EXPECT_THAT(text, HasSubstr("    my_param_1: Optional[str] = Field(None, alias=\"my.param\")\n"));
  EXPECT_THAT(text, HasSubstr("populate_by_name=True"));
}

TEST(Models, DoNotHideATypeBehindAField) {
  const auto text = classes_of(R"({"properties":{"date":{"type":"string","format":"date"},"str":{"type":"string"}}})");
  EXPECT_THAT(text, HasSubstr("    date_: Optional[date] = Field(None, alias=\"date\")\n"));
  EXPECT_THAT(text, HasSubstr("    str_: Optional[str] = Field(None, alias=\"str\")\n"));
}

TEST(Models, StopAtSchemasThatGrow) {
  std::string deep = R"({"type":"string"})";
  for (int i = 0; i < 13; ++i) deep = R"({"type":"object","properties":{"a":)" + deep + "}}";
  EXPECT_THAT(classes_of(deep), HasSubstr("Any"));
  json::object many;
  for (int i = 0; i < 900; ++i)
    many["p" + std::to_string(i)] =
        json::parse(R"({"type":"object","properties":{"a":{"type":"object","properties":{"b":{}}}}})");
  Models models;
  const auto added = models.add_root({{"properties", many}}, "Params");
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Errc::over_limit);
}

struct NameRow {
  const char* name;
  std::string_view given;
  std::string_view want;
};
class ToolName : public testing::TestWithParam<NameRow> {};
TEST_P(ToolName, IsAnIdentifier) {
  EXPECT_EQ(tool_name(GetParam().given), GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, ToolName,
                         testing::ValuesIn(std::to_array<NameRow>({
                             {"Dash", "tool-1", "tool_1"},
                             {"Case", "Tool_3", "tool_3"},
                             {"Blank", "my tool", "my_tool"},
                             {"Dots", "a.b/c", "a_b_c"},
                             {"Keyword", "class", "class_"},
                             {"Digit", "2fa", "tool_2fa"},
                             {"Empty", "", "tool"},
                             {"Init", "__init__", "tool__init__"},
                             {"Hook", "__getattr__", "tool__getattr__"},
                             {"Type", "str", "str_"},
                             {"Newline", "a\nimport os", "a_import_os"},
                             {"Letters", "w\xc3\xa4hle", "w_hle"},
                             {"Traversal", "../../etc/passwd", "tool______etc_passwd"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Literal, EscapesWhateverIsNotPlain) {
  EXPECT_EQ(string_literal("a\"b\\c\n\x01\xc3\xa9\xf0\x9f\x98\x80"), R"("a\"b\\c\n\x01\xe9\U0001f600")");
  EXPECT_EQ(docstring("a \"\"\" b\\ \"quoted\"\xe2\x80\xae"), R"("""a \"\"\" b\\ "quoted"\u202e""")");
  EXPECT_EQ(docstring("ends with \""), R"("""ends with \"""")");
  EXPECT_EQ(docstring("two\nlines"), "\"\"\"two\nlines\"\"\"");
  EXPECT_EQ(repr(json::parse(R"({"a":["x",1,true,null,1.5],"b":"it's"})")),
            R"({'a': ['x', 1, True, None, 1.5], 'b': "it's"})");
}

TEST(Pattern, IsCommonOrLeftOut) {
  for (const auto* good : {"^[a-z]+$", "\\d{4}-\\d{2}", "a|b", "(?:x|y)*", "[^/]+", "[a-zA-Z0-9_.-]+", ""})
    EXPECT_TRUE(common_pattern(good)) << good;
  for (const auto* bad : {"(?=a)", "(?P<x>a)", "\\1", "[", "(", "a{1000}", "(a{2}){2}", "*a", "a**", "\\p{L}",
                          "[[:alpha:]]", "[z-a]", "]", "a{,3}", "\\"})
    EXPECT_FALSE(common_pattern(bad)) << bad;
}

TEST(Package, HasAModuleForEachToolInTheFormsOfIpybox) {
  Tool first{.name = "tool-1",
             .description = "This is tool 1.",
             .input_schema = json::parse(R"({"properties":{"s":{"type":"string"}},"required":["s"]})").as_object()};
  Tool second{.name = "tool-2", .description = "Ends \"\"\" here", .input_schema = {}};
  second.output_schema = json::parse(R"({"properties":{"n":{"type":"integer"}}})").as_object();
  const auto package =
      generate({.name = "srv", .params = {{"command", "python"}, {"args", {"x.py"}}}}, {first, second});
  ASSERT_TRUE(package);
  EXPECT_THAT(package->names(), testing::ElementsAre("tool_1", "tool_2"));
  const auto& one = package->modules[0].source;
  EXPECT_THAT(one, HasSubstr("def tool_1(params: Params) -> str:\n    \"\"\"This is tool 1.\"\"\"\n"));
  EXPECT_THAT(one, HasSubstr("run_sync(\"tool-1\", CLIENT.arguments(params), SERVER_PARAMS)"));
  EXPECT_THAT(one, HasSubstr("class Params(BaseModel):\n    s: str\n"));
  EXPECT_THAT(one, HasSubstr("from ipybox.mcp.run import run_sync\n"));
  EXPECT_THAT(one, HasSubstr("def run(params: Params) -> str:\n"));
  const auto& two = package->modules[1].source;
  EXPECT_THAT(two, HasSubstr("Ends \\\"\\\"\\\" here"));
  EXPECT_THAT(two, HasSubstr("class Result(BaseModel):\n    n: Optional[int] = None\n"));
  EXPECT_THAT(two, HasSubstr("def run(params: Params) -> Result:\n"));
  EXPECT_THAT(package->files[0].text, HasSubstr("SERVER_PARAMS = {'command': 'python', 'args': ['x.py']}\n"));
}

TEST(Package, TellsToolsOfOneNameApart) {
  const auto package =
      generate({.name = "srv"}, {{.name = "a-b"}, {.name = "a.b"}, {.name = "A_b"}, {.name = "functions"}});
  ASSERT_TRUE(package);
  EXPECT_THAT(package->names(), testing::ElementsAre("a_b", "a_b_1", "a_b_2", "functions_1"));
}

TEST(Package, ShowsNoSecrets) {
  const auto shown = shown_params(
      json::parse(R"({"url":"https://u:p@example.org/mcp?key=1","headers":{"A":"Bearer x","B":"${B}"},"auth":{"s":1}})")
          .as_object());
  EXPECT_EQ(json::serialize(shown),
            R"({"url":"https://example.org/mcp","headers":{"A":"<withheld>","B":"${B}"},"auth":"<withheld>"})");
}

}  // namespace
}  // namespace cove::tools::codegen
