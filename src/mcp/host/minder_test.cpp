#include "mcp/host/minder.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace cove::mcp::host {
namespace {

Command command(std::vector<std::string> argv) {
  return Command{.argv = std::move(argv), .environment = {"PATH=/usr/bin:/bin", "WORD=a b"}, .directory = "/"};
}

Minded started(std::vector<std::string> argv) {
  auto minded = start(command(std::move(argv)), [] { return true; });
  EXPECT_TRUE(minded) << minded.error().message;
  return std::move(*minded);
}

std::string read_to_end(int fd) {
  std::string out;
  std::array<char, 4096> piece{};
  for (ssize_t size = 0; (size = ::read(fd, piece.data(), piece.size())) > 0;)
    out.append(piece.data(), static_cast<std::size_t>(size));
  return out;
}

// How it ended; 12345 if it did not within the time.
int end_of(const Minded& minded, int patience_ms = 10'000) {
  pollfd event{.fd = minded.control.get(), .events = POLLIN, .revents = 0};
  int word = 12345;
  if (::poll(&event, 1, patience_ms) == 1 &&
      ::read(minded.control.get(), &word, sizeof word) == static_cast<ssize_t>(sizeof word))
    ::waitpid(minded.minder, nullptr, 0);
  return word;
}

TEST(Minder, GivesTheProgramItsStreamsAndTellsHowItEnded) {
  auto minded = started({"sh", "-c", "read line; echo got $line; echo oops >&2; exit 3"});
  ASSERT_EQ(::write(minded.input.get(), "x\n", 2), 2);
  EXPECT_EQ(read_to_end(minded.output.get()), "got x\n");
  EXPECT_EQ(read_to_end(minded.errors.get()), "oops\n");
  const int status = end_of(minded);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(Minder, StartsNoShellAndGivesNoOtherVariables) {
  auto minded = started({"env", "X=$(id);`id`", "sh", "-c", "echo \"$X\"; env | cut -d= -f1 | sort | tr '\\n' ' '"});
  const auto said = read_to_end(minded.output.get());
  EXPECT_TRUE(said.starts_with("$(id);`id`\n")) << said;
  EXPECT_EQ(said.find("HOME"), said.npos) << said;
  EXPECT_NE(said.find("WORD"), said.npos) << said;
  EXPECT_EQ(end_of(minded), 0);
}

TEST(Minder, SaysWhyAProgramCannotBeStarted) {
  auto minded = started({"/no/such/program"});
  EXPECT_EQ(end_of(minded), -1 - ENOENT);
}

TEST(Minder, PassesSignalsOn) {
  auto minded = started({"sh", "-c", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"});
  std::array<char, 3> up{};
  ASSERT_EQ(::read(minded.output.get(), up.data(), up.size()), 3);
  ASSERT_EQ(::write(minded.control.get(), "T", 1), 1);
  EXPECT_EQ(WEXITSTATUS(end_of(minded)), 7);
}

TEST(Minder, KillsTheGroupOfTheProgramAtItsEnd) {
  auto minded = started({"sh", "-c", "sleep 1000 & echo $!"});
  const auto pid = static_cast<pid_t>(std::stoi(read_to_end(minded.output.get())));
  EXPECT_EQ(end_of(minded), 0);
  // An orphan is reaped by somebody else, a moment later.
  for (int i = 0; i < 200 && ::kill(pid, 0) == 0; ++i) ::usleep(10'000);
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(Minder, EndsTheProgramWhenNobodyHoldsItsControl) {
  auto minded = started({"sleep", "1000"});
  minded.control.reset();
  EXPECT_EQ(::waitpid(minded.minder, nullptr, 0), minded.minder);
}

}  // namespace
}  // namespace cove::mcp::host
