#include "doctor/limits.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>

#include "sys/process.hpp"

namespace cove::doctor {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kTouched = std::size_t{8} << 20;
// 20 ms of every 100: whoever needs 40 ms is held back once at least.
constexpr sys::CgroupLimits kLimits{.memory_bytes = std::uint64_t{64} << 20, .pids = 8, .cpu_millis = 200};
constexpr milliseconds kWork{40};
constexpr milliseconds kHeldBack{70};
constexpr int kManyForks = 32;
constexpr int kPatienceMillis = 10'000;

struct Witness {
  bool joined = false;
  int forks = 0;
  milliseconds work{0};
};

milliseconds cpu_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::duration_cast<milliseconds>(std::chrono::seconds(now.tv_sec) +
                                                  std::chrono::nanoseconds(now.tv_nsec));
}

// On the far side of the fork. What it has seen goes to `report_fd`; then it waits to be killed.
[[noreturn]] void be_greedy(const sys::Cgroup& leaf, int report_fd) {
  Witness seen{.joined = true};
  for (const auto& fd : leaf.join_fds()) seen.joined = seen.joined && ::write(fd.get(), "0", 1) == 1;
  if (seen.joined) {
    void* memory = ::mmap(nullptr, kTouched, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) std::memset(memory, 1, kTouched);
    // Unreaped children count, and none is left to anyone else.
    for (; seen.forks < kManyForks; ++seen.forks) {
      const auto pid = ::fork();
      if (pid == 0) ::_exit(0);
      if (pid < 0) break;
    }
    while (::wait(nullptr) > 0) {
    }
    const auto wall = Clock::now();
    const auto cpu = cpu_time();
    while (cpu_time() - cpu < kWork) {
    }
    seen.work = std::chrono::duration_cast<milliseconds>(Clock::now() - wall);
  }
  [[maybe_unused]] const auto n = ::write(report_fd, &seen, sizeof seen);
  while (true) ::pause();
}

Result<Witness> read_witness(int report_fd) {
  pollfd ready{.fd = report_fd, .events = POLLIN, .revents = 0};
  Witness seen;
  if (::poll(&ready, 1, kPatienceMillis) != 1)
    return fail(Errc::unavailable, "the process in the group did not answer");
  if (::read(report_fd, &seen, sizeof seen) != static_cast<ssize_t>(sizeof seen))
    return fail(Errc::unavailable, "the process in the group died");
  if (!seen.joined) return fail(Errc::denied, "no process can be put into the group");
  return seen;
}

void judge(LimitFindings& findings, const Witness& seen, const sys::CgroupUsage& usage) {
  if (findings.memory && usage.memory_peak_bytes < kTouched)
    findings.memory = fail(Errc::unsupported, "the group does not count memory");
  if (findings.pids && seen.forks >= kManyForks)
    findings.pids = fail(Errc::unsupported, "the group did not refuse a fork");
  if (findings.cpu && seen.work < kHeldBack)
    findings.cpu = fail(Errc::unsupported, "the group did not hold back a busy process");
}

Result<> freeze_and_thaw(sys::Cgroup& leaf) {
  COVE_CHECK(leaf.freeze());
  return leaf.thaw();
}

Result<> kill_and_wait(sys::Cgroup& leaf, const sys::Clone& child) {
  COVE_CHECK(leaf.kill_all());
  pollfd gone{.fd = child.pidfd.get(), .events = POLLIN, .revents = 0};
  if (::poll(&gone, 1, kPatienceMillis) != 1)
    return fail(Errc::unavailable, "a process survived the kill of its group");
  return {};
}

Result<> try_leaf(const sys::CgroupTree& tree, LimitFindings& findings) {
  COVE_TRY(auto leaf, sys::Cgroup::create(tree, "probe"));
  COVE_CHECK(leaf.limit(tree, kLimits));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  const UniqueFd report_out(ends[0]);
  UniqueFd report_in(ends[1]);
  const auto child = sys::clone_process({.cgroup_fd = leaf.unified_fd()});
  if (child.pid < 0) return fail_errno(errno, "start a process in the group");
  if (child.pid == 0) be_greedy(leaf, report_in.get());
  report_in.reset();

  const auto seen = read_witness(report_out.get());
  if (seen) {
    judge(findings, *seen, leaf.usage());
    findings.freeze = tree.freezes() ? freeze_and_thaw(leaf) : fail(Errc::unsupported, "no group here can freeze");
    findings.kill = kill_and_wait(leaf, child);
  }
  sys::kill_process(child.pidfd.get());  // whatever came of it, nothing stays
  while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  COVE_CHECK(seen);
  return {};
}

}  // namespace

LimitFindings try_limits() {
  LimitFindings findings;
  const auto none_for = [&](const Error& error) {
    for (auto* result : {&findings.memory, &findings.pids, &findings.cpu, &findings.freeze, &findings.kill}) {
      *result = tl::unexpected<Error>(error);
    }
  };
  const auto tree = sys::CgroupTree::create(
      {.name = fmt::format("cove-doctor-{}", ::getpid()), .owner = ::getuid(), .group = ::getgid()});
  if (!tree) {
    findings.shortcoming = tree.error().message;
    none_for(tree.error());
    return findings;
  }
  findings.mode = tree->mode();
  findings.shortcoming = tree->shortcoming();
  if (tree->mode() == sys::CgroupMode::none) {
    none_for({.code = Errc::unsupported, .message = "this process has no control group it may use"});
    return findings;
  }
  if (const auto tried = try_leaf(*tree, findings); !tried) none_for(tried.error());
  const Error missing{.code = Errc::unsupported, .message = "no such controller"};
  if (!tree->limits_memory()) findings.memory = tl::unexpected<Error>(missing);
  if (!tree->limits_pids()) findings.pids = tl::unexpected<Error>(missing);
  if (!tree->limits_cpu()) findings.cpu = tl::unexpected<Error>(missing);
  return findings;
}

}  // namespace cove::doctor
