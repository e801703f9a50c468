#include <gmock/gmock.h>

#include <array>

#include "cli/noxrc/options.hpp"
#include "cli/noxrc/rules.hpp"

namespace cove::cli::noxrc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct CommandRow {
  const char* name;
  Words command;
  bool allowed;
};
class Validator : public testing::TestWithParam<CommandRow> {};
TEST_P(Validator, LetsThroughOnlyWhatIsKnownToBeHarmless) {
  EXPECT_EQ(may_run(GetParam().command), GetParam().allowed);
}
INSTANTIATE_TEST_SUITE_P(, Validator,
                         testing::ValuesIn(std::to_array<CommandRow>({
                             {"Echo", {"echo", "rm"}, true},
                             {"AnyCase", {"PyThOn3"}, true},
                             {"Bracket", {"["}, true},
                             {"Sleep", {"sleep", "1"}, true},
                             {"Cd", {"cd"}, true},
                             {"Blocked", {"rm"}, false},
                             {"BlockedCase", {"SUDO"}, false},
                             {"Unknown", {"make"}, false},
                             {"ByPath", {"/bin/echo"}, false},
                             {"EmptyName", {""}, false},
                             {"Nothing", {}, false},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(Lists, AreThoseOfTheContract) {
  int allowed = 0;
  int blocked = 0;
  for (const char* name :
       {"[",     "awk",   "bash",  "cat",      "cd",    "cmp",    "cp",      "cut",     "diff",     "echo",
        "env",   "false", "file",  "find",     "grep",  "gunzip", "gzip",    "head",    "ln",       "ls",
        "mkdir", "mv",    "node",  "printenv", "pwd",   "python", "python2", "python3", "readlink", "sed",
        "sh",    "sleep", "sort",  "stat",     "tail",  "tar",    "test",    "touch",   "tr",       "true",
        "type",  "uniq",  "unzip", "wc",       "which", "xargs",  "zip",     "zsh"})
    allowed += is_allowed(name) && !is_blocked(name) ? 1 : 0;
  for (const char* name :
       {"chgrp", "chmod",    "chown",  "dd", "del",   "fdisk",    "format", "halt", "init",   "killall", "mkfs",
        "mount", "poweroff", "reboot", "rm", "rmdir", "shutdown", "su",     "sudo", "umount", "unlink"})
    blocked += is_blocked(name) && !is_allowed(name) ? 1 : 0;
  EXPECT_EQ(allowed, 48);
  EXPECT_EQ(blocked, 21);
}

struct PathRow {
  const char* name;
  const char* given;
  const char* want;
};
class Sanitiser : public testing::TestWithParam<PathRow> {};
TEST_P(Sanitiser, NeverLeavesTheSandbox) {
  EXPECT_EQ(sanitized(GetParam().given, "/tmp/noxrunner_sandbox_s").string(), GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, Sanitiser,
                         testing::ValuesIn(std::to_array<PathRow>({
                             {"Relative", "sub/dir", "/tmp/noxrunner_sandbox_s/workspace/sub/dir"},
                             {"Empty", "", "/tmp/noxrunner_sandbox_s/workspace"},
                             {"Dots", "./a/./b", "/tmp/noxrunner_sandbox_s/workspace/a/b"},
                             {"Up", "../x", "/tmp/noxrunner_sandbox_s/workspace"},
                             {"UpInside", "a/../b", "/tmp/noxrunner_sandbox_s/workspace"},
                             {"ThreeDots", ".../x", "/tmp/noxrunner_sandbox_s/workspace"},
                             {"Backslashes", "..\\..\\etc", "/tmp/noxrunner_sandbox_s/workspace"},
                             {"DotsInAName", "file..txt", "/tmp/noxrunner_sandbox_s/workspace/file..txt"},
                             {"DotsAtTheEnd", "dir../x", "/tmp/noxrunner_sandbox_s/workspace/dir../x"},
                             {"DotsAtTheStart", "....txt", "/tmp/noxrunner_sandbox_s/workspace/....txt"},
                             {"Outside", "/etc/passwd", "/tmp/noxrunner_sandbox_s/workspace"},
                             {"TheWorkspace", "/workspace/sub", "/tmp/noxrunner_sandbox_s/workspace"},
                             {"AbsoluteInside", "/tmp/noxrunner_sandbox_s/workspace/a",
                              "/tmp/noxrunner_sandbox_s/workspace/a"},
                             {"AbsoluteLeaving", "/tmp/noxrunner_sandbox_s/../x", "/tmp/noxrunner_sandbox_s/workspace"},
                             {"Neighbour", "/tmp/noxrunner_sandbox_s2/x", "/tmp/noxrunner_sandbox_s/workspace"},
                         })),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(SafeId, KeepsLettersDigitsDashesAndUnderscores) {
  EXPECT_EQ(safe_id("My-session_1"), "My-session_1");
  EXPECT_EQ(safe_id("../../etc"), "etc");
  EXPECT_EQ(safe_id("///"), "default");
  EXPECT_EQ(safe_id(""), "default");
}

TEST(UploadName, KeepsSubPathsUnlessTheyClimb) {
  EXPECT_EQ(upload_name("a/b.txt"), "a/b.txt");
  EXPECT_EQ(upload_name("//etc/x"), "etc/x");
  EXPECT_EQ(upload_name("a\\b"), "a/b");
  EXPECT_EQ(upload_name("../../x"), "x");
  EXPECT_EQ(upload_name("d/file..txt"), "file..txt");
}

struct CdRow {
  const char* from;
  const char* target;
  const char* want;
};
class Cd : public testing::TestWithParam<CdRow> {};
TEST_P(Cd, IsNormalisedByItsLetters) {
  EXPECT_EQ(changed_directory(GetParam().from, GetParam().target), GetParam().want);
}
INSTANTIATE_TEST_SUITE_P(, Cd,
                         testing::ValuesIn(std::to_array<CdRow>({{"/workspace", "sub", "/workspace/sub"},
                                                                 {"/workspace", "sub/", "/workspace/sub"},
                                                                 {"/workspace/a", "..", "/workspace"},
                                                                 {"/workspace", "../..", "/"},
                                                                 {"/workspace", "../../../x", "/x"},
                                                                 {"/workspace", "/tmp//a/./b", "/tmp/a/b"},
                                                                 {"/", "a", "/a"},
                                                                 {"/workspace", ".", "/workspace"},
                                                                 {"/workspace", "/", "/"}})));

TEST(ShellWord, IsQuotedOnlyWhenItMust) {
  EXPECT_EQ(shell_word("/workspace/a-b_c.d"), "/workspace/a-b_c.d");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\"'\"'s'");
  EXPECT_EQ(shell_word(""), "''");
}

Invocation parsed(const Words& words) {
  const auto result = parse(words);
  EXPECT_TRUE(std::holds_alternative<Invocation>(result)) << std::get<Printout>(result).text;
  return std::get<Invocation>(result);
}
Printout printed(const Words& words) {
  const auto result = parse(words);
  EXPECT_TRUE(std::holds_alternative<Printout>(result));
  return std::get<Printout>(result);
}

TEST(NoxrcOptions, HaveTheirDefaults) {
  const auto line = parsed({"create", "s"});
  EXPECT_EQ(line.timeout, 30);
  EXPECT_EQ(line.number("--ttl"), 900);
  EXPECT_EQ(line.number("--wait-timeout"), 30);
  EXPECT_FALSE(line.has("--wait"));
  EXPECT_FALSE(line.base_url);
  EXPECT_EQ(parsed({"exec", "s", "ls"}).value("--workdir"), "/workspace");
  EXPECT_EQ(parsed({"download", "s"}).value("--extract"), ".");
}

TEST(NoxrcOptions, GlobalOnesComeBeforeTheCommand) {
  const auto line = parsed({"--base-url", "http://h", "--timeout=5", "--local-test", "touch", "s"});
  EXPECT_EQ(line.base_url, "http://h");
  EXPECT_EQ(line.timeout, 5);
  EXPECT_TRUE(line.local);
  EXPECT_EQ(printed({"touch", "s", "--local-test"}).status, 2);
}

TEST(NoxrcOptions, EverythingAfterTheSessionIsTheCommand) {
  EXPECT_THAT(parsed({"exec", "s", "--workdir", "/", "pwd"}).words, ElementsAre("--workdir", "/", "pwd"));
  EXPECT_THAT(parsed({"exec", "s", "--", "ls", "--", "x"}).words, ElementsAre("ls", "--", "x"));
  const auto line = parsed({"exec", "--workdir", "/", "--env", "A=1", "--env", "B", "s", "pwd"});
  EXPECT_EQ(line.value("--workdir"), "/");
  EXPECT_THAT(line.environment, ElementsAre("A=1", "B"));
  EXPECT_THAT(line.words, ElementsAre("pwd"));
}

TEST(NoxrcOptions, MayStandAnywhereAndBeCutShort) {
  const auto line = parsed({"create", "s", "--tt", "60", "--wait"});
  EXPECT_EQ(line.number("--ttl"), 60);
  EXPECT_TRUE(line.has("--wait"));
  EXPECT_THAT(parsed({"upload", "s", "a", "--dest", "/x", "b"}).words, ElementsAre("a", "b"));
}

TEST(NoxrcOptions, NonsenseIsTwo) {
  EXPECT_THAT(printed({"create"}).text, HasSubstr("the following arguments are required"));
  EXPECT_EQ(printed({"create"}).status, 2);
  EXPECT_THAT(printed({"nope"}).text, HasSubstr("invalid choice: 'nope'"));
  EXPECT_THAT(printed({"create", "s", "--ttl", "x"}).text, HasSubstr("argument --ttl: invalid int value: 'x'"));
  EXPECT_EQ(printed({"create", "s", "--ttl"}).status, 2);
  EXPECT_EQ(printed({"create", "s", "extra"}).status, 2);
  EXPECT_EQ(printed({"--nope", "health"}).status, 2);
  EXPECT_EQ(printed({}).status, 1);
  EXPECT_EQ(printed({"--help"}).status, 0);
  EXPECT_EQ(printed({"exec", "-h"}).status, 0);
}

}  // namespace
}  // namespace cove::cli::noxrc
