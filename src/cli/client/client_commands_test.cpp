#include <gmock/gmock.h>

#include <array>

#include "cli/client/client_options.hpp"
#include "cli/client/completion_command.hpp"
#include "cli/client/progress.hpp"
#include "cli/client/table.hpp"
#include "cli/client/transfer_commands.hpp"

namespace cove::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Table, IsAsWideAsWhatIsInItAndHasNoBlanksAtTheEnd) {
  Table table({"ID", "STATE", "LABELS"});
  table.add({"demo", "running", ""});
  table.add({"größer", "paused", "a=b"});
  EXPECT_EQ(table.text(),
            "ID       STATE     LABELS\n"
            "demo     running\n"
            "größer   paused    a=b");
}

TEST(Table, ShowsNothingATerminalCouldActOn) {
  Table table({"ID"});
  table.add({"a\x1b[31m\nb"});
  EXPECT_THAT(table.text(), Not(HasSubstr("\x1b")));
  EXPECT_THAT(table.text(), HasSubstr("[31m b"));
}

struct AgeRow {
  int seconds;
  const char* want;
};
class Age : public testing::TestWithParam<AgeRow> {};
TEST_P(Age, IsOneNumber) {
  EXPECT_EQ(coarse(std::chrono::seconds(GetParam().seconds)), GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(
    , Age,
    testing::ValuesIn(std::to_array<AgeRow>(
        {{-5, "0s"}, {0, "0s"}, {119, "119s"}, {120, "2m"}, {7199, "119m"}, {7200, "2h"}, {172'800, "2d"}})));

TEST(UnixSeconds, AreReadOffTheServersTimes) {
  EXPECT_EQ(unix_seconds("1970-01-02T00:00:01Z"), 86401);
  EXPECT_EQ(unix_seconds("yesterday"), std::nullopt);
  EXPECT_EQ(unix_seconds(""), std::nullopt);
}

struct RemoteRow {
  const char* given;
  const char* id;  // "" = a path of this machine
  const char* path;
};
class Remote : public testing::TestWithParam<RemoteRow> {};
TEST_P(Remote, IsToldFromALocalPath) {
  const auto remote = remote_path(GetParam().given);
  EXPECT_EQ(remote ? remote->id : "", GetParam().id);
  EXPECT_EQ(remote ? remote->path : "", GetParam().path);
}
INSTANTIATE_TEST_SUITE_P(, Remote,
                         testing::ValuesIn(std::to_array<RemoteRow>({{"demo:/workspace/a", "demo", "/workspace/a"},
                                                                     {"demo:a:b", "demo", "a:b"},
                                                                     {"demo:", "demo", ""},
                                                                     {"file", "", ""},
                                                                     {"./a:b", "", ""},
                                                                     {"/tmp/a:b", "", ""},
                                                                     {"dir/a:b", "", ""},
                                                                     {":x", "", ""},
                                                                     {"-", "", ""}})));

TEST(ProgressLine, HasABarOnlyWhenTheEndIsKnown) {
  using std::chrono::milliseconds;
  EXPECT_EQ(progress_line("f", 512, 1024, milliseconds(1000)),
            "f  [============>           ]  50%  512B of 1.0K  512B/s");
  EXPECT_EQ(progress_line("f", 1024, 1024, milliseconds(0)), "f  [========================] 100%  1.0K of 1.0K  0B/s");
  EXPECT_EQ(fitted("name", "name  50%", 80), "name  50%");
  EXPECT_EQ(fitted("a-very-long-name-of-a-file", "a-very-long-name-of-a-file  50%", 20), "a-very-long...  50%");
  EXPECT_EQ(fitted("name", "name  [=========]", 10), "name  [==");
  EXPECT_EQ(fitted("name", "name  50%", 0), "name  50%");
  EXPECT_EQ(progress_line("f", 5U << 20, std::nullopt, milliseconds(500)), "f  5.0M  10.0M/s");
}

TEST(Pairs, NeedANameAndAnEqualsSign) {
  EXPECT_EQ(boost::json::serialize(*pairs("--env", {"A=1", "B=x=y", "C="})), R"({"A":"1","B":"x=y","C":""})");
  EXPECT_FALSE(pairs("--env", {"A"}));
  EXPECT_FALSE(pairs("--env", {"=1"}));
}

TEST(ClientOptions, RefuseWhatCannotBeSent) {
  EXPECT_FALSE(connect({.url = "ftp://x"}));
  EXPECT_FALSE(connect({.url = "http://x", .key = "a\r\nX-Evil: 1"}));
  EXPECT_TRUE(connect({.url = "http://x", .key = "cove_abc"}));
}

TEST(Completion, KnowsEveryCommandAndOptionThereIs) {
  App app("", "cove");
  Commands commands;
  add_client_commands(app, commands);
  ASSERT_GT(commands.size(), 12U);
  for (const auto& script : {bash_completion(app), zsh_completion(app)}) {
    for (const auto* command : app.subcommands()) {
      EXPECT_THAT(script, HasSubstr("'" + command->name() + "')"));
      for (const auto& option : command->options()) {
        for (const auto& name : option.names) EXPECT_THAT(script, HasSubstr(name));
      }
    }
  }
}

TEST(Completion, OfFishKnowsEveryCommandAndOptionToo) {
  App app("", "cove");
  Commands commands;
  add_client_commands(app, commands);
  const auto script = fish_completion(app);
  for (const auto* command : app.subcommands()) {
    EXPECT_THAT(script, HasSubstr("-a '" + command->name() + "'"));
    for (const auto& option : command->options()) {
      for (const auto& name : option.names) {
        if (name.starts_with("--")) EXPECT_THAT(script, HasSubstr("-l " + name.substr(2) + " "));
      }
    }
  }
}

TEST(Flags, StandForTheFieldsOfTheServersSentences) {
  EXPECT_EQ(in_flags("memoryLimit is more than this server's limit of 8G"),
            "--memory is more than this server's limit of 8G");
  EXPECT_EQ(
      in_flags("demo is there already, so these were not applied: memoryLimit 2G (it has 1G), env; PATCH changes them"),
      "demo is there already, so these were not applied: --memory 2G (it has 1G), --env; cove update changes them");
  EXPECT_EQ(in_flags("indexUrl must be given"), "--index must be given");
  EXPECT_EQ(in_flags("template not found: x"), "--template not found: x");
  EXPECT_EQ(in_flags("no such template: env"), "no such template: env");
}

TEST(Help, TeachesWithExamples) {
  App app("", "cove");
  Commands commands;
  add_client_commands(app, commands);
  for (const auto& command : commands) EXPECT_THAT(command.app->footer(), HasSubstr("Example")) << command.app->name();
}

}  // namespace
}  // namespace cove::cli
