#include "jail/plan.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace cove::jail {
namespace {

void add_rlimit(Locks& locks, int resource, rlim_t soft, rlim_t hard) {
  // Hard limits are only ever lowered: inside containers there is no CAP_SYS_RESOURCE to raise one.
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &now);
  hard = std::min(hard, now.rlim_max);
  locks.rlimits[locks.rlimit_count++] = {.resource = resource,
                                         .value = {.rlim_cur = std::min(soft, hard), .rlim_max = hard}};
}

rlim_t slack_of(const PlanInput& input) {
  return input.backstop == LimitBackstop::cgroup ? kProcessSlack : 0;
}

// Room above a limit of init's, for the keeper to raise it later.
void leave_room(Locks& locks, int resource, rlim_t most) {
  rlimit now{};
  ::getrlimit(static_cast<__rlimit_resource>(resource), &now);
  for (std::size_t i = 0; i < locks.rlimit_count; ++i) {
    auto& limit = locks.rlimits[i];
    if (limit.resource == resource) limit.value.rlim_max = std::max(limit.value.rlim_max, std::min(most, now.rlim_max));
  }
}

}  // namespace

#ifdef COVE_TEST_LOCKS
unsigned locks_left_off() noexcept {
  const char* text = std::getenv("COVE_TEST_LOCKS_OFF");
  return text == nullptr ? 0 : static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}
#endif

Locks make_locks(const PlanInput& input) {
  Locks locks{.terminal = input.terminal,
              .signals = input.signals,
              .landlock_abi = input.landlock_abi,
              .nice = input.nice,
              .cores = input.cores};
  // Exactly 1: the one value that also keeps a core from being piped to a program of the host (core(5)).
  add_rlimit(locks, RLIMIT_CORE, 1, 1);
  add_rlimit(locks, RLIMIT_NOFILE, 1024, 4096);
  // It still ends what would make a file that no disk of this size can hold.
  const rlim_t largest = input.limits.disk_bytes + kFileSlack;
  add_rlimit(locks, RLIMIT_FSIZE, largest, largest);
  add_rlimit(locks, RLIMIT_STACK, 8U << 20, 64U << 20);
  add_rlimit(locks, RLIMIT_MEMLOCK, 64U << 10, 64U << 10);
  add_rlimit(locks, RLIMIT_MSGQUEUE, 128U << 10, 128U << 10);  // one queue of the default size
  add_rlimit(locks, RLIMIT_SIGPENDING, 256, 256);
  add_rlimit(locks, RLIMIT_RTPRIO, 0, 0);
  // Counted per user namespace since 5.14, so a true limit on this sandbox alone. Beside a control group it stands a
  // little higher, because only the group counts what it refused.
  const rlim_t processes = input.limits.pids + slack_of(input);
  add_rlimit(locks, RLIMIT_NPROC, processes, processes);
  // Private writable memory, not address space: what a runtime reserves and never touches costs nothing.
  if (input.backstop == LimitBackstop::rlimit)
    add_rlimit(locks, RLIMIT_DATA, input.limits.memory_bytes, input.limits.memory_bytes);
  return locks;
}

Plan make_plan(const PlanInput& input, const sys::Cgroup* cgroup) {
  Plan plan;
  plan.root = input.root;
  plan.uid = input.uid;
  plan.gid = input.gid;
  std::snprintf(plan.uid_map, sizeof plan.uid_map, "%u %u 1\n", kInnerUid, input.uid);
  std::snprintf(plan.gid_map, sizeof plan.gid_map, "%u %u 1\n", kInnerGid, input.gid);
  std::snprintf(plan.disk_size, sizeof plan.disk_size, "%llu",
                static_cast<unsigned long long>(input.limits.disk_bytes));
  std::snprintf(plan.disk_inodes, sizeof plan.disk_inodes, "%llu",
                static_cast<unsigned long long>(input.limits.inodes));
  plan.locks = make_locks(input);
  if (input.backstop == LimitBackstop::cgroup) {
    leave_room(plan.locks, RLIMIT_FSIZE, input.raisable.disk_bytes + kFileSlack);
    leave_room(plan.locks, RLIMIT_NPROC, input.raisable.pids + slack_of(input));
  }
  std::snprintf(plan.devices, sizeof plan.devices, "%s/%u", kDevices, input.device_set);
  plan.control_fd = input.control_fd;
  if (cgroup != nullptr) {
    plan.cgroup_fd = cgroup->unified_fd();
    for (const auto& fd : cgroup->join_fds()) plan.join_fds[plan.join_count++] = fd.get();
  }
  return plan;
}

}  // namespace cove::jail
