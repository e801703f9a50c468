#include "guest/limit_message.hpp"

#include <gtest/gtest.h>
#include <signal.h>

namespace cove::guest {
namespace {

constexpr RunLimits kLimits{.memory_bytes = 512U << 20, .disk_bytes = 256U << 20, .inodes = 65536, .pids = 64};

std::string line(const Evidence& evidence, RunFacts facts = {.limits = kLimits, .remedy = Remedy::run_option}) {
  return limit_message(judge(evidence), evidence, facts);
}

TEST(LimitMessage, SaysThatTheProgramItselfWasKilledForMemory) {
  EXPECT_EQ(line({.exit_seen = true, .signal = SIGKILL, .oom_kills = 1},
                 {.limits = kLimits, .memory_peak_bytes = 512U << 20, .remedy = Remedy::run_option}),
            "killed: memory limit 512M reached (peak 512M); --memory 1G gives more");
}

TEST(LimitMessage, TellsOfAKilledProcessBesideTheProgramsOwnStatus) {
  EXPECT_EQ(line({.exit_seen = true, .exit_code = 3, .oom_kills = 1}),
            "a process was killed: memory limit 512M reached; the program went on and exited with status 3; "
            "--memory 1G gives more");
  EXPECT_EQ(line({.exit_seen = true, .exit_code = 0, .oom_kills = 2}),
            "2 processes were killed: memory limit 512M reached; the program went on and exited with status 0; "
            "--memory 1G gives more");
  EXPECT_EQ(line({.stopped_by_us = Reason::timeout, .exit_seen = true, .signal = SIGKILL, .oom_kills = 1}),
            "a process was killed: memory limit 512M reached; the program went on until its time limit; "
            "--memory 1G gives more");
}

TEST(LimitMessage, TellsOfAKilledProcessBesideACell) {
  EXPECT_EQ(killed_beside(1, {.limits = kLimits}),
            "a process was killed: memory limit 512M reached; cove update --memory 1G (API: memoryLimit) gives more");
}

TEST(LimitMessage, SaysThatFilesAreMemoryWhenTheyHoldMuchOfIt) {
  const auto text = line({.exit_seen = true, .signal = SIGKILL, .oom_kills = 1},
                         {.limits = kLimits, .file_bytes = 200U << 20, .remedy = Remedy::run_option});
  EXPECT_EQ(text,
            "killed: memory limit 512M reached, 200M of it by files, which count as memory; --memory 1G gives more");
}

TEST(LimitMessage, TellsBytesFilesAndFileSizeApart) {
  EXPECT_EQ(line({.exit_seen = true, .exit_code = 1, .disk_full = true}),
            "failed: disk limit 256M reached; delete files, or --disk 512M gives more");
  EXPECT_EQ(line({.exit_seen = true, .exit_code = 1, .files_full = true}),
            "failed: file limit 65536 reached: no more files can be made; delete some, or pack many into one");
  EXPECT_EQ(line({.exit_seen = true, .signal = SIGXFSZ}),
            "failed: a file would have been larger than the disk limit 256M; --disk 512M gives more");
}

TEST(LimitMessage, NamesWhatTheApiCallsItInASandbox) {
  EXPECT_EQ(line({.exit_seen = true, .exit_code = 1, .pids_refused = 4}, {.limits = kLimits}),
            "failed: process limit 64 reached (4 more refused); cove update --pids 128 (API: pidsLimit) gives more");
}

TEST(LimitMessage, NamesTheSignalOfACrashAndNothingElse) {
  EXPECT_EQ(line({.exit_seen = true, .signal = SIGSEGV}), "the program was ended by SIGSEGV (Segmentation fault)");
  EXPECT_EQ(line({.exit_seen = true, .signal = SIGTERM}), "");
  EXPECT_EQ(line({.exit_seen = true, .exit_code = 3}), "");
  EXPECT_EQ(line({.exit_seen = true, .exit_code = 0, .pids_refused = 4}), "");
}

}  // namespace
}  // namespace cove::guest
