#include "guest/outcome.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <array>

namespace cove::guest {
namespace {

struct Row {
  const char* name;
  Evidence evidence;
  Reason reason;
  int status;
};
class Judge : public testing::TestWithParam<Row> {};

TEST_P(Judge, NamesTheReasonAndTheStatus) {
  const auto& row = GetParam();
  EXPECT_EQ(name_of(judge(row.evidence)), name_of(row.reason));
  EXPECT_EQ(exit_status(judge(row.evidence), row.evidence), row.status);
}
INSTANTIATE_TEST_SUITE_P(
    , Judge,
    testing::ValuesIn(std::to_array<Row>({
        {"PlainExit", {.exit_seen = true, .exit_code = 0}, Reason::exited, 0},
        {"OwnExitCode", {.exit_seen = true, .exit_code = 3}, Reason::exited, 3},
        {"SelfMade137IsNotOom", {.exit_seen = true, .exit_code = 137}, Reason::exited, 137},
        {"Segfault", {.exit_seen = true, .signal = SIGSEGV}, Reason::signalled, 139},
        {"OomOfAChildThatTheProgramCopedWith", {.exit_seen = true, .exit_code = 0, .oom_kills = 1}, Reason::exited, 0},
        {"OomOfAChildAndTheProgramsOwnStatus", {.exit_seen = true, .exit_code = 3, .oom_kills = 1}, Reason::oom, 3},
        {"OomOfAChildAndTheProgramsOwnSignal",
         {.exit_seen = true, .signal = SIGABRT, .oom_kills = 2},
         Reason::oom,
         134},
        {"OomOfEverything", {.exit_seen = false, .oom_kills = 3}, Reason::oom, 137},
        {"FilesFullAndFailed", {.exit_seen = true, .exit_code = 1, .files_full = true}, Reason::disk, 1},
        {"OomBeforeATimeout",
         {.stopped_by_us = Reason::timeout, .exit_seen = true, .signal = SIGKILL, .oom_kills = 1},
         Reason::oom,
         137},
        {"OomKilled", {.exit_seen = true, .signal = SIGKILL, .oom_kills = 1}, Reason::oom, 137},
        {"TimeoutWinsOverTheSignalWeSent",
         {.stopped_by_us = Reason::timeout, .exit_seen = true, .signal = SIGKILL},
         Reason::timeout,
         124},
        {"Cancelled",
         {.stopped_by_us = Reason::cancelled, .exit_seen = true, .signal = SIGKILL},
         Reason::cancelled,
         130},
        {"PidsRefusedAndFailed", {.exit_seen = true, .exit_code = 1, .pids_refused = 4}, Reason::pids, 1},
        {"PidsRefusedButCoped", {.exit_seen = true, .exit_code = 0, .pids_refused = 4}, Reason::exited, 0},
        {"DiskFullAndFailed", {.exit_seen = true, .exit_code = 1, .disk_full = true}, Reason::disk, 1},
        {"FileSizeSignal", {.exit_seen = true, .signal = SIGXFSZ}, Reason::disk, 153},
        {"InitGone", {.exit_seen = false}, Reason::sandbox_gone, 125},
        {"Flood",
         {.stopped_by_us = Reason::output_limit, .exit_seen = true, .signal = SIGKILL},
         Reason::output_limit,
         137},
    })),
    [](const auto& row) { return std::string(row.param.name); });

TEST(SignalName, KnowsThoseWithAndWithoutAName) {
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(40), "SIG40");
  EXPECT_EQ(signal_name(0), "");
}

}  // namespace
}  // namespace cove::guest
