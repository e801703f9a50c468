#include "sys/cgroup.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "base/io.hpp"
#include "kernel/requirement.hpp"
#include "sys/process.hpp"

namespace cove::sys {
namespace {

constexpr CgroupLimits kLimits{.memory_bytes = 64U << 20, .pids = 20, .cpu_millis = 1000};

// Each test runs as the host is, and as a host that has v1 alone.
enum class Flavour { as_it_is, v1_alone };
class CgroupTest : public testing::TestWithParam<Flavour> {
 protected:
  void SetUp() override {
    COVE_REQUIRE(::geteuid() == 0, "making control groups needs root here");
    auto tree = CgroupTree::create(
        {.name = fmt::format("cove-{}", ::getpid()), .ignore_unified = GetParam() == Flavour::v1_alone});
    ASSERT_TRUE(tree) << tree.error().message;
    tree_.emplace(std::move(*tree));
    COVE_REQUIRE(tree_->limits_memory() && tree_->limits_pids() && tree_->limits_cpu() && tree_->freezes(),
                 "controllers are missing: " + tree_->shortcoming());
  }

  Cgroup make() {
    auto group = Cgroup::create(*tree_, "s-test");
    EXPECT_TRUE(group) << group.error().message;
    EXPECT_TRUE(group->limit(*tree_, kLimits));
    return std::move(*group);
  }

  // A child born in the group, as the jail does it. `body` runs in it and must not return to the test.
  static Clone start(const Cgroup& group, const std::function<void()>& body) {
    int joined[2];
    EXPECT_EQ(::pipe(joined), 0);
    auto clone = clone_process({.namespaces = 0, .cgroup_fd = group.unified_fd()});
    if (clone.pid == 0) {
      for (const auto& fd : group.join_fds()) {
        if (::write(fd.get(), "0", 1) != 1) ::_exit(99);
      }
      ::close(joined[0]);
      ::close(joined[1]);
      body();
      ::_exit(0);
    }
    // On v1 it joins one hierarchy after the other: end of file when it is in all.
    ::close(joined[1]);
    char byte = 0;
    EXPECT_EQ(::read(joined[0], &byte, 1), 0);
    ::close(joined[0]);
    return clone;
  }

  static int wait(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
  }

  static void wait_until(const std::function<bool()>& reached) {
    for (int i = 0; i < 5000 && !reached(); ++i) ::usleep(1000);
    EXPECT_TRUE(reached());
  }

  std::optional<CgroupTree> tree_;
};
INSTANTIATE_TEST_SUITE_P(, CgroupTest, testing::Values(Flavour::as_it_is, Flavour::v1_alone),
                         [](const auto& info) { return info.param == Flavour::as_it_is ? "AsTheHostIs" : "V1Alone"; });

TEST_P(CgroupTest, LeavesNothingBehindWhenItIsDestroyed) {
  {
    const auto group = make();
    EXPECT_TRUE(group.empty());
  }
  auto again = Cgroup::create(*tree_, "s-test");
  EXPECT_TRUE(again) << "the directory of the first was still there: " << again.error().message;
}

TEST_P(CgroupTest, KillsDaemonsThatLeftTheirSessionAndParent) {
  auto group = make();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const auto child = start(group, [&] {
    for (int i = 0; i < 5; ++i) {
      if (::fork() != 0) continue;
      ::setsid();
      if (::fork() != 0) ::_exit(0);
      ::signal(SIGTERM, SIG_IGN);
      while (true) ::pause();
    }
    ::_exit(0);
  });
  ::close(ends[1]);  // only the daemons hold it now
  wait(child.pid);
  EXPECT_FALSE(group.empty());
  ASSERT_TRUE(group.kill_all());
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);  // end of file: the last of them is gone
  ::close(ends[0]);
  wait_until([&] { return group.empty(); });
}

TEST_P(CgroupTest, StopsAForkBombAtItsLimitAndCountsTheRefusals) {
  auto group = make();
  const auto child = start(group, [] {
    for (int i = 0; i < 100; ++i) {
      const pid_t pid = ::fork();
      if (pid == 0) {
        while (true) ::pause();
      }
      if (pid < 0) ::_exit(errno == EAGAIN ? 11 : 12);
    }
  });
  EXPECT_EQ(WEXITSTATUS(wait(child.pid)), 11);
  EXPECT_GE(group.usage().pids_refused, 1U);
}

TEST_P(CgroupTest, TellsOfAProcessKilledForMemory) {
  auto group = make();
  const auto child = start(group, [] {
    const std::size_t size = 256U << 20;
    auto* memory =
        static_cast<char*>(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::size_t i = 0; i < size; i += 4096) memory[i] = 1;
  });
  const int status = wait(child.pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  pollfd event{.fd = group.oom_fd(), .events = POLLIN | POLLPRI, .revents = 0};
  EXPECT_EQ(::poll(&event, 1, 5000), 1);
  EXPECT_TRUE(group.consume_oom_event());
  EXPECT_FALSE(group.consume_oom_event());
  EXPECT_EQ(group.usage().oom_kills, 1U);
  EXPECT_GE(group.usage().memory_peak_bytes, 60U << 20);
}

TEST_P(CgroupTest, StandsStillWhileFrozenAndGoesOnAfterwards) {
  auto group = make();
  auto* counter = static_cast<volatile std::uint64_t*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto child = start(group, [&] {
    while (true) *counter = *counter + 1;
  });
  wait_until([&] { return *counter > 1000; });
  ASSERT_TRUE(group.freeze());
  const auto still = *counter;
  ::usleep(50'000);
  EXPECT_EQ(*counter, still);
  ASSERT_TRUE(group.thaw());
  wait_until([&] { return *counter > still; });
  ASSERT_TRUE(group.kill_all());
  wait(child.pid);
}

// v1 frozen tasks ignore SIGKILL until they are thawed (docs/attacks.md SG-14).
TEST_P(CgroupTest, SG_14_KillsWhatIsFrozen) {
  auto group = make();
  const auto child = start(group, [] {
    while (true) ::pause();
  });
  wait_until([&] { return !group.empty(); });
  ASSERT_TRUE(group.freeze());
  ASSERT_TRUE(group.kill_all());
  const int status = wait(child.pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

// A page that nobody ever provides: who reads it inside a system call can be killed, but not frozen.
char* page_that_never_comes() {
  const int handler = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC));
  if (handler < 0) return nullptr;
  uffdio_api api{.api = UFFD_API, .features = 0, .ioctls = 0};
  auto* page = static_cast<char*>(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  uffdio_register range{.range = {.start = reinterpret_cast<std::uintptr_t>(page), .len = 4096},
                        .mode = UFFDIO_REGISTER_MODE_MISSING,
                        .ioctls = 0};
  const bool ready = ::ioctl(handler, UFFDIO_API, &api) == 0 && ::ioctl(handler, UFFDIO_REGISTER, &range) == 0;
  return ready ? page : nullptr;
}

TEST_P(CgroupTest, AGroupThatCannotBeFrozenGoesOnAndCanStillBeKilled) {
  auto group = make();
  auto* counter = static_cast<volatile std::uint64_t*>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  auto* stuck = counter + 1;
  const auto immovable = start(group, [&] {
    int ends[2];
    const char* page = page_that_never_comes();
    if (page == nullptr || ::pipe(ends) != 0) ::_exit(77);
    *stuck = 1;
    [[maybe_unused]] const auto n = ::write(ends[1], page, 1);
  });
  int status = 0;
  while (*stuck == 0 && ::waitpid(immovable.pid, &status, WNOHANG) == 0) ::usleep(1000);
  COVE_REQUIRE(*stuck == 1, "userfaultfd is not to be had here");
  const auto child = start(group, [&] {
    while (true) *counter = *counter + 1;
  });
  wait_until([&] { return *counter > 1000; });
  ::usleep(20'000);  // until the other is in its system call
  const auto frozen = group.freeze();
  ASSERT_FALSE(frozen);
  EXPECT_EQ(frozen.error().code, Errc::unavailable);
  const auto then = *counter;
  wait_until([&] { return *counter > then; });
  ASSERT_TRUE(group.kill_all());
  for (const auto pid : {immovable.pid, child.pid}) {
    status = wait(pid);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
}

TEST_P(CgroupTest, SweepsGroupsOfMakersThatDied) {
  const pid_t dead = ::fork();
  if (dead == 0) {
    // A maker that is killed cannot clean up.
    auto tree = CgroupTree::create(
        {.name = fmt::format("cove-{}", ::getpid()), .ignore_unified = GetParam() == Flavour::v1_alone});
    if (!tree || tree->mode() == CgroupMode::none) ::_exit(1);
    auto group = Cgroup::create(*tree, "s-left");
    if (!group) ::_exit(2);
    ::kill(::getpid(), SIGKILL);
  }
  const int status = wait(dead);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "it made no group: " << WEXITSTATUS(status);
  const auto name = fmt::format("cove-{}", dead);
  const auto there = [&] {
    return ::system(fmt::format("find /sys/fs/cgroup -maxdepth 5 -name {} | grep -q .", name).c_str()) == 0;
  };
  // It may be gone already: every cove that starts on this host sweeps.
  tree_.reset();
  auto next = CgroupTree::create({.name = fmt::format("cove-{}", ::getpid())});
  ASSERT_TRUE(next);
  EXPECT_FALSE(there());
}

}  // namespace
}  // namespace cove::sys
