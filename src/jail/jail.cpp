#include "jail/jail.hpp"

#include <fcntl.h>
#include <linux/keyctl.h>
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

#include "sys/landlock.hpp"
#include "sys/loopback.hpp"
#include "sys/mount.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"
#include "sys/seccomp.hpp"

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

// Attaches and forgets a detached mount; -1 from the maker passes through as false.
bool place(int mount_fd, const char* target) noexcept {
  if (mount_fd < 0) return false;
  const bool attached = sys::attach(mount_fd, target);
  const int saved = errno;
  ::close(mount_fd);
  errno = saved;
  return attached;
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

// Counters of this user namespace. Nobody inside can raise them again once the capabilities are gone (SECURITY.md
// E-19): a second wall behind seccomp. Without a new user namespace there is no capability, and without one no other
// namespace either.
bool seal_counters() noexcept {
  return write_text("/proc/sys/user/max_user_namespaces", "0") &&
         write_text("/proc/sys/user/max_inotify_instances", "32") &&
         write_text("/proc/sys/user/max_inotify_watches", "8192") && write_text("/proc/self/oom_score_adj", "500");
}

// One tmpfs holds everything the sandbox writes: one size, one inode count, gone with the last mount.
bool make_storage(const Plan& plan) noexcept {
  const sys::MountOption options[] = {{"size", plan.disk_size}, {"nr_inodes", plan.disk_inodes}, {"mode", "0755"}};
  if (!place(sys::make_filesystem("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV), kStage) ||
      ::chdir(kStage) != 0)
    return false;
  for (const char* directory : {"upper", "work", "root", "shm", "upper/workspace", "upper/home", "upper/home/cove"}) {
    if (::mkdir(directory, 0755) != 0) return false;
  }
  return ::mkdir("upper/tmp", 01777) == 0 && ::chmod("upper/tmp", 01777) == 0 && ::chmod("shm", 01777) == 0;
}

bool make_root(const Plan& plan) noexcept {
  const sys::MountOption options[] = {{"userxattr", nullptr},
                                      {"lowerdir", plan.root.lower},
                                      {"upperdir", "upper"},
                                      {"workdir", "work"},
                                      {"xino", "off"}};
  return place(sys::make_filesystem("overlay", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV), "root") &&
         ::chdir("root") == 0;
}

// An overlay even where nothing is written: two sandboxes never share an inode, so neither locks nor inotify pass
// between them (SECURITY.md E-6). Without an upper layer it wants two lower ones; the first is what statfs(2) tells of,
// so it is not the host's disk.
bool make_trees(const Plan& plan) noexcept {
  for (std::size_t i = 0; i < plan.root.tree_count; ++i) {
    const auto& tree = plan.root.trees[i];
    char lower[64] = {};
    std::strncat(lower, kEmpty, sizeof lower - 1);
    std::strncat(lower, ":", sizeof lower - std::strlen(lower) - 1);
    std::strncat(lower, tree.source, sizeof lower - std::strlen(lower) - 1);
    const sys::MountOption options[] = {{"userxattr", nullptr}, {"lowerdir", lower}, {"xino", "off"}};
    const unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY;
    if (!place(sys::make_filesystem("overlay", options, attributes), tree.target)) return false;
  }
  return true;
}

bool make_proc() noexcept {
  const sys::MountOption options[] = {{"subset", "pid"}};
  return place(sys::make_filesystem("proc", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC), "proc");
}

// The room has a /dev as a sandbox sees it, read-only, with the five nodes. One copy takes all.
bool make_devices(const Plan& plan) noexcept {
  if (!place(sys::copy_tree(plan.devices), "dev")) return false;
  const int shm = ::open_tree(AT_FDCWD, "../shm", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  return shm >= 0 && sys::restrict_tree(shm, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC) &&
         place(shm, "dev/shm");
}

bool make_terminals() noexcept {
  const sys::MountOption options[] = {{"ptmxmode", "0666"}, {"mode", "0600"}, {"max", "16"}};
  return place(sys::make_filesystem("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC), "dev/pts") &&
         place(sys::copy_tree(kTty), "dev/tty");
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

bool reset_process() noexcept {
  sigset_t none;
  ::sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return false;
  for (int number = 1; number < 32; ++number) ::signal(number, SIG_DFL);
  ::umask(022);
  ::setsid();
  // A session keyring of its own, empty. A kernel without keys has none to share either.
  ::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr);
  return true;
}

bool set_rlimits(const Plan& plan) noexcept {
  for (std::size_t i = 0; i < plan.rlimit_count; ++i) {
    if (::setrlimit(static_cast<__rlimit_resource>(plan.rlimits[i].resource), &plan.rlimits[i].value) != 0)
      return false;
  }
  return true;
}

// Rules hold for an inode and what lies below it. "/" is the sandbox's own root directory, so a file of the host,
// however it might be reached, has no rule above it. Few, because each is a first look-up in a new filesystem.
constexpr sys::PathRule kPathRules[] = {
    {"/", sys::PathUse::execute},         {"/workspace", sys::PathUse::write}, {"/tmp", sys::PathUse::write},
    {"/home", sys::PathUse::write},       {"/dev", sys::PathUse::device},      {"/dev/shm", sys::PathUse::write},
    {"/dev/pts", sys::PathUse::terminal},  // from here on only where there are terminals
    {"/dev/tty", sys::PathUse::terminal},
};
constexpr std::size_t kTerminalRules = 2;

bool restrict_objects(const Plan& plan) noexcept {
  const auto left_out = plan.terminal == TerminalSupport::available ? 0 : kTerminalRules;
  return sys::restrict_with_landlock(std::span(kPathRules).first(std::size(kPathRules) - left_out), plan.landlock_abi);
}

[[noreturn]] void die(int report_fd, Stage stage) noexcept {
  const Report report{.stage = stage, .sys_errno = errno};
  [[maybe_unused]] const auto n = ::write(report_fd, &report, sizeof report);
  ::_exit(125);
}

[[noreturn]] void become_init(const Plan& plan, int report_fd) noexcept {
  const unsigned off = locks_left_off();
  if (!join_cgroup(plan)) die(report_fd, Stage::join_cgroup);
  // After joining: a cgroup namespace shows as "/" the group one is in when it is made (SECURITY.md E-20).
  if (::unshare(CLONE_NEWCGROUP) != 0) die(report_fd, Stage::cgroup_namespace);
  if (!map_ids(plan)) die(report_fd, Stage::map_ids);
  if (!sys::set_ids(kInnerUid, kInnerGid)) die(report_fd, Stage::take_ids);
  if (!sys::make_private() || !make_storage(plan)) die(report_fd, Stage::storage);
  if (!make_root(plan)) die(report_fd, Stage::root);
  if (!make_trees(plan)) die(report_fd, Stage::trees);
  if (!make_proc()) die(report_fd, Stage::proc);
  if (!make_devices(plan)) die(report_fd, Stage::devices);
  if (plan.terminal == TerminalSupport::available && !make_terminals()) die(report_fd, Stage::terminal);
  if ((off & kNaming) == 0) {
    if (!sys::bring_up_loopback()) die(report_fd, Stage::loopback);
    if (::sethostname("cove", 4) != 0 || ::setdomainname("", 0) != 0) die(report_fd, Stage::hostname);
  }
  // After the mounts, each of which is made in a namespace of its own for a moment, and while the host's /proc is still
  // here.
  if ((off & kNaming) == 0 && !seal_counters()) die(report_fd, Stage::seal_counters);
  if (!sys::change_root(".")) die(report_fd, Stage::change_root);
  if (!reset_process() || !set_descriptors(plan, report_fd)) die(report_fd, Stage::descriptors);
  if (!set_rlimits(plan)) die(report_fd, Stage::rlimits);
  if (!sys::drop_all_capabilities() || !sys::set_no_new_privileges()) die(report_fd, Stage::capabilities);
  if ((off & kObjects) == 0 && plan.landlock_abi > 0 && !restrict_objects(plan)) die(report_fd, Stage::landlock);
  // Last: the steps above need more calls than anyone inside may make.
  if ((off & kSurface) == 0 && !sys::install_seccomp(sys::default_seccomp())) die(report_fd, Stage::seccomp);
  char name[] = "cove-init";
  char* const argv[] = {name, nullptr};
  char* const environment[] = {nullptr};
  ::execve(kInitPath, argv, environment);
  die(report_fd, Stage::init);
}

}  // namespace

std::string_view words_for(Stage stage) {
  switch (stage) {
    case Stage::none:
      return "nothing";
    case Stage::join_cgroup:
      return "join the control group";
    case Stage::cgroup_namespace:
      return "make a cgroup namespace";
    case Stage::map_ids:
      return "map the sandbox's user";
    case Stage::take_ids:
      return "become the sandbox's user";
    case Stage::seal_counters:
      return "limit the namespace's counters";
    case Stage::storage:
      return "make the sandbox's storage";
    case Stage::root:
      return "mount the root";
    case Stage::trees:
      return "mount the system directories";
    case Stage::proc:
      return "mount /proc";
    case Stage::devices:
      return "make the devices";
    case Stage::terminal:
      return "make the terminals";
    case Stage::loopback:
      return "bring up loopback";
    case Stage::hostname:
      return "set the host name";
    case Stage::change_root:
      return "enter the root";
    case Stage::descriptors:
      return "set up descriptors";
    case Stage::rlimits:
      return "set resource limits";
    case Stage::capabilities:
      return "drop capabilities";
    case Stage::landlock:
      return "turn on Landlock";
    case Stage::seccomp:
      return "install the seccomp filter";
    case Stage::init:
      return "start cove-init";
  }
  return "an unknown step";
}

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
