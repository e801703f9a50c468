#include "config/languages.hpp"

#include <gmock/gmock.h>

namespace cove::config {
namespace {

TEST(Languages, AreTheSixteenOfTheContractSorted) {
  const auto languages = Languages::built_in();
  ASSERT_TRUE(languages) << languages.error().message;
  std::vector<std::string> names;
  for (const auto& language : languages->all()) names.push_back(language.name);
  EXPECT_THAT(names, testing::ElementsAre("bash", "clojure", "fish", "groovy", "java", "javascript", "kotlin", "lua",
                                          "perl", "php", "python", "ruby", "scala", "sh", "typescript", "zsh"));
}

TEST(Languages, AreFoundByTheFirstExtensionThatFits) {
  const auto languages = Languages::built_in();
  ASSERT_TRUE(languages);
  EXPECT_EQ(languages->by_file("a/b.py")->name, "python");
  EXPECT_EQ(languages->by_file("x.sh")->name, "bash");
  EXPECT_EQ(languages->by_file("x.mjs")->name, "javascript");
}

TEST(Languages, NameWhatThereIsWhenOneIsUnknown) {
  const auto languages = Languages::built_in();
  ASSERT_TRUE(languages);
  EXPECT_THAT(languages->by_name("cobol").error().message, testing::HasSubstr("typescript"));
  EXPECT_FALSE(languages->by_file("Makefile"));
  EXPECT_FALSE(languages->by_file(".py"));
}

TEST(Languages, SayWhichKeyIsWrong) {
  EXPECT_THAT(
      Languages::parse("[x]\nextensions=[\".x\"]\ncommand=[\"x\"]\nmime=\"m\"\npackage=\"p\"\n").error().message,
      testing::HasSubstr("x.command"));
  EXPECT_THAT(
      Languages::parse("[x]\nextensions=[\".x\"]\ncommand=[\"x\", \"{file}\"]\npackage=\"p\"\n").error().message,
      testing::HasSubstr("x.mime"));
  EXPECT_THAT(Languages::parse("[x\n").error().message, testing::HasSubstr("line 1"));
}

TEST(CommandLine, FillsInTheFile) {
  EXPECT_THAT(command_line({"python3", "{file}"}, "/workspace/a b.py"),
              testing::ElementsAre("python3", "/workspace/a b.py"));
}

}  // namespace
}  // namespace cove::config
