#include "syntax/basic_check.hpp"

#include <gtest/gtest.h>

#include <string>

#include "config/languages.hpp"
#include "syntax/grammar.hpp"

namespace cove::syntax {
namespace {

TEST(BasicCheck, KnowsEveryLanguage) {
  const auto languages = config::Languages::built_in().value();
  for (const auto& language : languages.all()) EXPECT_NE(find_grammar(language.name), nullptr) << language.name;
}

TEST(BasicCheck, FindsNothingInALanguageItDoesNotKnow) {
  EXPECT_FALSE(basic_check("cobol", "((("));
}

struct Good {
  const char* name;
  const char* language;
  const char* code;
};
class GoodProgram : public testing::TestWithParam<Good> {};

TEST_P(GoodProgram, IsLeftAlone) {
  const auto problem = basic_check(GetParam().language, GetParam().code);
  EXPECT_FALSE(problem) << problem->line << ":" << problem->column << " " << problem->message;
}

INSTANTIATE_TEST_SUITE_P(
    , GoodProgram,
    testing::ValuesIn(std::to_array<Good>({
        {"PythonStrings", "python", "x = '(' + \"[\" + '''{\n\"''' + r'\\''  # (\nf(\n  1,\n)\n"},
        {"PythonBlocks", "python",
         "if x: pass\nwhile y:\n\n    # nothing\n  \n    f(lambda: 1)\nasync def g():\n\treturn {\n1: 2}\n"},
        {"PythonContinuation", "python", "if a and \\\n   b:\n    pass\nelse:\n    x[1:2]\n"},
        {"PythonOtherWords", "python", "format = 1\nprint(f'{x:>3}')\nmatch = 2\n"},
        {"JavaScript", "javascript",
         "#!/usr/bin/env node\nconst r = /[/\"(]\\/'/g, t = `a ${ f(`b ${1}`) } ( `;\nlet d = a / b / c; // (\n/* { "
         "*/"},
        {"JavaScriptAfterWords", "javascript", "function f() { return /'/.test(x) }\n"},
        {"TypeScript", "typescript", "const f = <T>(x: T[]): Map<string, T> => ({ 'a': x });\n"},
        {"Java", "java",
         "class A { char c = '\"'; char d = '\\''; char e = '\\u0041'; String t = \"\"\"\n \"( \"\"\"; }\n"},
        {"Kotlin", "kotlin", "/* /* */ ( */ val s = \"${f(\"a\")} (\"; val r = \"\"\"C:\\\"\"\"\"; val c = '('\n"},
        {"Scala", "scala", "val a = 'sym; val b = '('; val c = s\"${f(\"}\")}\"; val d = \"${\"\n"},
        {"Groovy", "groovy", "def a = ~/[(]'/; def b = \"${x.y('}')}\"; def c = $/ ' ( /$; def d = 4 / 2 / 1\n"},
        {"Clojure", "clojure", "(defn f [x] ; (\n  (str \\( \\\" x #\"\\(\" '(1 2)))\n"},
        {"Shell", "bash",
         "#!/bin/bash\nfor f in *; do\n  case $f in\n    a|b) echo \"$(basename \"$f\")\" ;;\n    (c) if true; then "
         "echo done; fi ;;\n"
         "  esac\ndone\necho if $# ${x#(} ${y:-)} \\( $((1 << 2)) # (\ncat <<'EOF' <<-E2\nit's ( \nEOF\n\t'\n\tE2\ncat "
         "<<< '('\n"},
        {"ShellFunctions", "sh",
         "f() { if [ -n \"$1\" ]; then return; fi; }\nwhile read -r x; do f; done < file\nfor x do echo; done\n"},
        {"Zsh", "zsh", "if [[ -n $1 ]]; then echo $'it\\'s'; fi\n"},
        {"Fish", "fish",
         "function f\n  if test $x; echo end\n  else if true\n    echo \"$(echo \")\")\"\n  end\n  switch $x\n case "
         "a\n end\nend\n"},
        {"Lua", "lua",
         "#!/usr/bin/lua\n--[[ ( ]] local s = [==[ ]] ( ]==]\nfor i=1,2 do while x do repeat f() until y end end\n"
         "local f = function() if a then b() elseif c then d() end end\n"},
        {"Ruby", "ruby",
         "=begin\n(\n=end\nclass A\n  def f(a = (1)) = a\n  def g=(v)\n    @v = v if v\n  end\n  def self.end?; "
         "end\nend\n"
         "x = if true then 1 else 2 end\nwhile x do x = nil end\n[1].each do |i| puts \"#{i} #{\"(\"}\" end\n"
         "h = { if: 1, :end => %w[( [ ]], r: /[(']/ }\nreturn if x\nputs <<~EOS.strip, <<-'X'\n  it's (\nEOS\n  (\n  "
         "X\n"
         "class << self; end\nbegin; end while x\nsplit /'/\nf { 1 } if x == ?(\n__END__\n(((\n"},
        {"Perl", "perl",
         "my $n = $#{$x} + $#y; sub f($$) { -s $x } my %h = (s => 1, y => 2); $h{m} = qw{a (};\n$x =~ s{(}{)}g; $x =~ "
         "tr/'//d;\n"
         "if ($x =~ m/'(/ and /\"/) { print <<\"E\", q(it's), \"\\\"\" } # (\nit's "
         "(\nE\n=pod\n\n((\n\n=cut\n1;\n__END__\n((\n"},
        {"Php", "php",
         "<p>it's (</p><?php #[Attr]\n$a = \"{$b[\"x\"]} (\"; # it's\necho <<<EOT\n it's (\n  EOT . 'x'; // ' "
         "?>\n<b>(</b><?= $a ?>\n"},
    })),
    [](const auto& row) { return std::string(row.param.name); });

struct Bad {
  const char* name;
  const char* language;
  const char* code;
  std::size_t line;
  std::size_t column;
  const char* message;
};
class BadProgram : public testing::TestWithParam<Bad> {};

TEST_P(BadProgram, IsToldWhere) {
  const auto problem = basic_check(GetParam().language, GetParam().code);
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->line, GetParam().line);
  EXPECT_EQ(problem->column, GetParam().column);
  EXPECT_EQ(problem->message, GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    , BadProgram,
    testing::ValuesIn(std::to_array<Bad>({
        {"PythonBracket", "python", "x = 1\nprint(x\n", 2, 6, "'(' was never closed"},
        {"PythonMismatch", "python", "f([1)\n", 1, 5, "')' does not close '[' of line 1"},
        {"PythonString", "python", "ä = 'abc\nx\n", 1, 5, "string was never closed"},
        {"PythonColon", "python", "x = 1\nif x\n    y\n", 2, 1, "expected ':'"},
        {"PythonBlock", "python", "def f():\nreturn 1\n", 2, 1, "expected an indented block after 'def' on line 1"},
        {"PythonBlockAtTheEnd", "python", "def f():\n", 2, 1, "expected an indented block"},
        {"JavaScript", "javascript", "function f() {\n  g(`${x`\n}\n", 2, 9, "string was never closed"},
        {"JavaScriptComment", "javascript", "/* x\n", 1, 1, "comment was never closed"},
        {"TypeScript", "typescript", "let a: number[ = 1;\n}\n", 2, 1, "'}' does not close '[' of line 1"},
        {"Java", "java", "class A {\n  void f() {\n}\n", 1, 9, "'{' was never closed"},
        {"JavaString", "java", "class A { String s = \"x; }\n", 1, 22, "string was never closed"},
        {"Kotlin", "kotlin", "fun main() {\n  println(\"${x\")\n}\n", 2, 15, "string was never closed"},
        {"KotlinComment", "kotlin", "/* /* */\n", 1, 1, "comment was never closed"},
        {"Scala", "scala", "@main def f() = println(1))\n", 1, 27, "')' closes nothing"},
        {"Groovy", "groovy", "println 'a\n", 1, 9, "string was never closed"},
        {"Clojure", "clojure", "(println 1\n", 1, 1, "'(' was never closed"},
        {"Bash", "bash", "if true; then\n  echo 1\n", 1, 1, "'if' was never closed"},
        {"BashDone", "bash", "echo\ndone\n", 2, 1, "'done' closes nothing"},
        {"BashQuote", "bash", "echo \"a\n", 1, 6, "string was never closed"},
        {"Sh", "sh", "for x in 1; do\n(\ndone\n", 3, 1, "'done' does not close '(' of line 2"},
        {"Zsh", "zsh", "case x in\n a) ;;\n", 1, 1, "'case' was never closed"},
        {"Fish", "fish", "function f\n  echo\n", 1, 1, "'function' was never closed"},
        {"Lua", "lua", "if x then\n", 1, 1, "'if' was never closed"},
        {"LuaUntil", "lua", "repeat\nend\n", 2, 1, "'end' does not close 'repeat' of line 1"},
        {"Ruby", "ruby", "def f\n  1\n", 1, 1, "'def' was never closed"},
        {"RubyEnd", "ruby", "x = 1 if y\nend\n", 2, 1, "'end' closes nothing"},
        {"RubyHeredoc", "ruby", "x = <<~EOS\n a\n", 1, 5, "the text up to EOS was never closed"},
        {"Perl", "perl", "if ($x) {\n", 1, 9, "'{' was never closed"},
        {"PerlQuote", "perl", "my $x = qq{a;\n", 1, 9, "quoted text was never closed"},
        {"Php", "php", "(<?php\nf(;\n?>", 2, 2, "'(' was never closed"},
    })),
    [](const auto& row) { return std::string(row.param.name); });

TEST(BasicCheck, GoesOnlySoDeep) {
  const auto problem = basic_check("python", std::string(100'000, '('));
  ASSERT_TRUE(problem);
  EXPECT_EQ(problem->message, "more than 1000 brackets and blocks are open");
  EXPECT_EQ(problem->column, 1001);
}

// What is written to keep a server busy is read once: if one of these were read again and again, this would not end.
TEST(BasicCheck, IsNotKeptBusyByWhatIsMadeForIt) {
  const auto languages = config::Languages::built_in().value();
  std::string text;
  for (const auto* piece : {"/*", "<<A\n", "${", "= /[", "s{", "(", "%w[", "\"${"}) {
    text.clear();
    while (text.size() < (std::size_t{1} << 20)) text += piece;
    for (const auto& language : languages.all()) static_cast<void>(basic_check(language.name, text).has_value());
  }
}

}  // namespace
}  // namespace cove::syntax
