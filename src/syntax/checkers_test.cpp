#include "syntax/checkers.hpp"

#include <gtest/gtest.h>

#include <string>

#include "config/languages.hpp"

namespace cove::syntax {
namespace {

TEST(Checkers, NameEveryLanguage) {
  const auto languages = config::Languages::built_in().value();
  for (const auto& language : languages.all()) {
    EXPECT_EQ(checker_of(language.name).language, language.name);
    EXPECT_EQ(checker_of(language.name).patterns.empty(), language.check.empty()) << language.name;
  }
  EXPECT_EQ(checker_of("cobol").label, "Code");
}

struct Row {
  const char* language;
  const char* file;
  const char* output;
  std::size_t line;    // 0: none
  std::size_t column;  // 0: none
  const char* message;
};
class Output : public testing::TestWithParam<Row> {};

TEST_P(Output, IsUnderstood) {
  const auto& row = GetParam();
  const auto found = read_finding(checker_of(row.language), row.file, row.output);
  EXPECT_EQ(found.line.value_or(0), row.line);
  EXPECT_EQ(found.column.value_or(0), row.column);
  EXPECT_EQ(found.message, row.message);
}

// As the programs of Debian 12 say it.
INSTANTIATE_TEST_SUITE_P(
    , Output,
    testing::ValuesIn(std::to_array<Row>({
        {"python", "main.py", "main.py:2:7: '(' was never closed\n", 2, 7, "'(' was never closed"},
        {"javascript", "main.cjs",
         "main.cjs:2\nlet b = (;\n         ^\n\nSyntaxError: Unexpected token ';'\n    at wrapSafe "
         "(node:internal:1:2)\n",
         2, 10, "Unexpected token ';'"},
        {"typescript", "main.ts",
         "\xE2\x9C\x98 [ERROR] Unexpected \"=\"\n\n    main.ts:2:7:\n      2 \xE2\x94\x82 let b: = 2;\n        "
         "\xE2\x95\xB5  ^\n",
         2, 8, "Unexpected \"=\""},
        {"ruby", "main.rb", "main.rb:4: syntax error, unexpected `end'\n", 4, 0, "syntax error, unexpected `end'"},
        {"bash", "main.sh", "main.sh: line 3: syntax error: unexpected end of file\n", 3, 0,
         "syntax error: unexpected end of file"},
        {"sh", "main.sh", "main.sh: 3: Syntax error: end of file unexpected (expecting \"then\")\n", 3, 0,
         "Syntax error: end of file unexpected (expecting \"then\")"},
        {"zsh", "main.zsh", "main.zsh:3: parse error near `\\n'\n", 3, 0, "parse error near `\\n'"},
        {"fish", "main.fish", "main.fish (line 1): Missing end to balance this if statement\nif true\n^^\n", 1, 1,
         "Missing end to balance this if statement"},
        {"perl", "main.pl", "syntax error at main.pl line 2, near \"{ }\"\nmain.pl had compilation errors.\n", 2, 0,
         "syntax error"},
        {"php", "main.php", "PHP Parse error:  syntax error, unexpected token \";\" in main.php on line 2\n", 2, 0,
         "syntax error, unexpected token \";\""},
        {"lua", "main.lua", "luac5.4: main.lua:3: 'end' expected (to close 'if' at line 2) near <eof>\n", 3, 0,
         "'end' expected (to close 'if' at line 2) near <eof>"},
        {"java", "main.java", "main.java:3: error: illegal start of expression\n  int x = ;\n          ^\n1 error\n", 3,
         11, "illegal start of expression"},
        // What has no form is what it is.
        {"python", "main.py", "main.py:0:0: source code string cannot contain null bytes\n", 0, 0,
         "source code string cannot contain null bytes"},
        {"bash", "main.sh", "  Segmentation fault\n", 0, 0, "Segmentation fault"},
        {"java", "main.java", "main.java:99999999999999999999: error: x", 0, 0,
         "main.java:99999999999999999999: error: x"},
        {"lua", "main.lua", "", 0, 0, ""},
    })),
    [](const auto& row) { return row.param.language + std::to_string(row.index); });

}  // namespace
}  // namespace cove::syntax
