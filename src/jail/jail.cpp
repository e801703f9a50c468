#include "jail/jail.hpp"

#include "jail/root.hpp"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <span>

#include "sys/loopback.hpp"
#include "sys/mount.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"

// From `become_init` on this is the far side of fork: no allocation, no locks, no logging. Every step is true or leaves
// errno.

namespace cove::jail {
namespace {

constexpr std::uint64_t kNamespaces =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
constexpr std::uint64_t kNamespacesWithoutNaming =
    CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID;  // proc needs the pid namespace

bool write_text(const char* path, const char* text) noexcept {
  const int fd = ::open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const auto size = static_cast<ssize_t>(std::strlen(text));
  const bool written = ::write(fd, text, static_cast<std::size_t>(size)) == size;
  const int saved = errno;
  ::close(fd);
  errno = saved;
  return written;
}

bool join_cgroup(const Plan& plan) noexcept {
  for (std::size_t i = 0; i < plan.join_count; ++i) {
    if (::write(plan.join_fds[i], "0", 1) != 1) return false;
  }
  return true;
}

bool map_ids(const Plan& plan) noexcept {
  // The keeper's change of id made us undumpable, which gives our files in /proc to the host's root.
  return ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 && write_text("/proc/self/setgroups", "deny") &&
         write_text("/proc/self/gid_map", plan.gid_map) && write_text("/proc/self/uid_map", plan.uid_map);
}

// Counters of this user namespace. Nobody inside can raise them again once the capabilities are gone
// (docs/attacks.md NS-12): a second wall behind seccomp. Without a new user namespace there is no capability, and
// without one no other namespace either.
bool seal_counters() noexcept {
  return write_text("/proc/sys/user/max_user_namespaces", "0") &&
         write_text("/proc/sys/user/max_inotify_instances", "32") &&
         write_text("/proc/sys/user/max_inotify_watches", "8192") && write_text("/proc/self/oom_score_adj", "500");
}

// 0, 1 and 2 are /dev/null, 3 is the control socket; the report closes itself at exec.
bool set_descriptors(const Plan& plan, int& report_fd) noexcept {
  // Out of the way of 0 to 3 first: the numbers may be among them.
  const int control = ::fcntl(plan.control_fd, F_DUPFD_CLOEXEC, 10);
  const int report = ::fcntl(report_fd, F_DUPFD_CLOEXEC, 10);
  if (control < 0 || report < 0) return false;
  report_fd = report;
  if (::dup3(report, 4, O_CLOEXEC) < 0 || ::dup2(control, kControlFd) < 0) return false;
  report_fd = 4;
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return false;
  for (int fd = 0; fd <= 2; ++fd) {
    if (::dup2(null, fd) < 0) return false;
  }
  return ::syscall(SYS_close_range, 5, ~0U, 0) == 0;
}

[[noreturn]] void die(int report_fd, Stage stage) noexcept {
  const Report report{.stage = stage, .sys_errno = errno};
  [[maybe_unused]] const auto n = ::write(report_fd, &report, sizeof report);
  ::_exit(125);
}

[[noreturn]] void become_init(const Plan& plan, int report_fd) noexcept {
  const unsigned off = locks_left_off();
  if (!join_cgroup(plan)) die(report_fd, Stage::join_cgroup);
  // After joining: a cgroup namespace shows as "/" the group one is in when it is made (docs/attacks.md PR-05).
  if (::unshare(CLONE_NEWCGROUP) != 0) die(report_fd, Stage::cgroup_namespace);
  if (!map_ids(plan)) die(report_fd, Stage::map_ids);
  if (!sys::set_ids(kInnerUid, kInnerGid)) die(report_fd, Stage::take_ids);
  if (!sys::make_private() || !make_storage(plan)) die(report_fd, Stage::storage);
  if (!make_root(plan)) die(report_fd, Stage::root);
  if (!make_trees(plan)) die(report_fd, Stage::trees);
  if (!make_proc()) die(report_fd, Stage::proc);
  if (!make_devices(plan)) die(report_fd, Stage::devices);
  if (plan.locks.terminal == TerminalSupport::available && !make_terminals()) die(report_fd, Stage::terminal);
  if ((off & kNaming) == 0) {
    if (!sys::bring_up_loopback()) die(report_fd, Stage::loopback);
    if (::sethostname("cove", 4) != 0 || ::setdomainname("", 0) != 0) die(report_fd, Stage::hostname);
  }
  // After the mounts, each of which is made in a namespace of its own for a moment, and while the host's /proc is still
  // here.
  if ((off & kNaming) == 0 && !seal_counters()) die(report_fd, Stage::seal_counters);
  if (!sys::change_root(".")) die(report_fd, Stage::change_root);
  default_signals();
  if (!reset_process() || !set_descriptors(plan, report_fd)) die(report_fd, Stage::descriptors);
  if (const auto failed = put_on(plan.locks); failed != Stage::none) die(report_fd, failed);
  char name[] = "cove-init";
  char* const argv[] = {name, nullptr};
  char* const environment[] = {nullptr};
  ::execve(kInitPath, argv, environment);
  die(report_fd, Stage::init);
}

}  // namespace

Result<Jailed> start(const Plan& plan) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  UniqueFd report_in(ends[0]);
  const UniqueFd report_out(ends[1]);

  const std::uint64_t namespaces = (locks_left_off() & kNaming) == 0 ? kNamespaces : kNamespacesWithoutNaming;
  const sys::ActAs owner(plan.uid, plan.gid);
  if (!owner) return fail_errno(errno, "act as uid {}", plan.uid);
  auto clone = sys::clone_process({.namespaces = namespaces, .cgroup_fd = plan.cgroup_fd});
  if (clone.pid == 0) become_init(plan, report_out.get());
  if (clone.pid < 0) return fail_errno(errno, "make the sandbox's namespaces");
  return Jailed{.pid = clone.pid, .pidfd = std::move(clone.pidfd), .report = std::move(report_in)};
}

}  // namespace cove::jail
