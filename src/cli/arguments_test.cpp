#include "cli/arguments.hpp"

#include <gmock/gmock.h>

namespace cove::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Fixture {
  App app{"What it is for", "tool"};
  App* command = app.add_subcommand("make", "Makes something");
  std::string text;
  Words words;
  std::uint32_t number = 7;
  bool flag = false;

  Fixture() {
    command->add_option("id", text, "What to make")->required();
    command->add_option("-n,--number", number, "How many")->capture_default_str()->group("Amounts");
    command->add_option("--word", words, "A word")->expected(1)->take_all()->allow_extra_args(false);
    command->add_flag("-q,--quiet", flag, "Say nothing");
  }
};

TEST(Arguments, FillTheVariables) {
  Fixture tool;
  const auto parsed = tool.app.parse({"make", "-q", "--word", "a", "thing", "--word", "b", "-n", "3"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, Parsed::call);
  EXPECT_TRUE(tool.command->called());
  EXPECT_EQ(tool.text, "thing");
  EXPECT_THAT(tool.words, ElementsAre("a", "b"));
  EXPECT_EQ(tool.number, 3U);
  EXPECT_TRUE(tool.flag);
  EXPECT_EQ(tool.command->count("--word"), 2U);
}

TEST(Arguments, SayWhatIsWrong) {
  const auto error = [](const Words& words) {
    Fixture tool;
    const auto parsed = tool.app.parse(words);
    return parsed ? "" : parsed.error().message;
  };
  EXPECT_EQ(error({"make"}), "id is required");
  EXPECT_THAT(error({"make", "thing", "-n", "many"}), HasSubstr("--number"));
  EXPECT_THAT(error({"make", "thing", "--nonsense"}), HasSubstr("--nonsense"));
}

TEST(Arguments, CheckValues) {
  App app;
  std::string shell;
  int seconds = 0;
  app.add_option("--shell", shell, "")->one_of({"bash", "zsh"});
  app.add_option("--seconds", seconds, "")->between(1, 10);
  EXPECT_TRUE(app.parse({"--shell", "zsh", "--seconds", "10"}));
  EXPECT_FALSE(app.parse({"--shell", "tcsh"}));
  EXPECT_FALSE(app.parse({"--seconds", "11"}));
}

TEST(Arguments, LeaveTheRestToACommandWithWordsOfItsOwn) {
  App app;
  std::string id;
  auto* exec = app.add_subcommand("exec", "");
  exec->prefix_command();
  exec->add_option("id", id, "");
  ASSERT_TRUE(app.parse({"exec", "demo", "ls", "-l"}));
  EXPECT_EQ(id, "demo");
  EXPECT_THAT(exec->remaining(), ElementsAre("ls", "-l"));
}

TEST(Arguments, AreShownInTheHelp) {
  Fixture tool;
  tool.app.add_subcommand("other", "Does something else");
  tool.app.group_subcommands({{"First", {"other"}}});
  const auto all = tool.app.help();
  EXPECT_THAT(all, HasSubstr("\nFirst:\n  other "));
  EXPECT_THAT(all, HasSubstr("\nMore:\n  make "));
  tool.command->usage("Usage: tool make ID\n");
  tool.command->footer("That is all.");
  const auto one = tool.command->help("tool");
  EXPECT_THAT(one, HasSubstr("Usage: tool make ID\n"));
  EXPECT_THAT(one, HasSubstr("\nAmounts:\n  -n,--number UINT=7 "));
  EXPECT_THAT(one, HasSubstr("That is all."));
}

TEST(Arguments, AreListedForCompletion) {
  const Fixture tool;
  std::vector<std::string> seen;
  for (const auto& option : tool.command->options()) {
    auto& text = seen.emplace_back(option.positional);
    for (const auto& name : option.names) text += name + " ";
    text += std::to_string(option.most_values);
  }
  EXPECT_THAT(seen, ElementsAre("-h --help 0", "id1", "-n --number 1", "--word 1", "-q --quiet 0"));
}

}  // namespace
}  // namespace cove::cli
