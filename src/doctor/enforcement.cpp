#include "doctor/enforcement.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "doctor/limits.hpp"
#include "doctor/probe.hpp"
#include "host/identity.hpp"
#include "sys/landlock.hpp"
#include "sys/mount.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"
#include "sys/seccomp.hpp"

namespace cove::doctor {
namespace {

// A lock: what to say when it holds, and when it does not.
struct Lock {
  const char* id;
  const char* title;
  std::string holds;
  const char* consequence;
  std::string fix;
};

Check judged(const Lock& lock, const Result<>& tried, Status otherwise = Status::fail) {
  Check check{.id = lock.id, .title = lock.title, .found = lock.holds};
  if (tried) return check;
  check.status = otherwise;
  check.found = tried.error().message;
  check.consequence = lock.consequence;
  check.fix = lock.fix;
  return check;
}

// The probes. Each is the far side of a fork: no allocation, errno says why.

Outcome nested_namespaces() {
  constexpr std::uint64_t kSandbox =
      CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  const auto child = sys::clone_process({.namespaces = kSandbox});
  if (child.pid < 0) return failed("make namespaces inside namespaces");
  if (child.pid == 0) ::_exit(0);
  ::waitpid(child.pid, nullptr, 0);
  return {};
}

Outcome second_id() {
  if (!sys::set_ids(1, 1)) return failed("take a second id");
  return ::getuid() == 1 ? Outcome{} : Outcome{.step = "the second id was not taken"};
}

Outcome proc_of_pids() {
  const sys::MountOption options[] = {{"subset", "pid"}};
  const UniqueFd proc(sys::make_filesystem("proc", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC));
  if (!proc) return failed("mount proc");
  if (::faccessat(proc.get(), "self/status", R_OK, 0) != 0) return failed("read the new proc");
  if (::faccessat(proc.get(), "sys", F_OK, 0) == 0) return {.step = "the new proc shows more than processes"};
  return {};
}

UniqueFd limited_tmpfs() {
  const sys::MountOption options[] = {{"size", "1048576"}, {"nr_inodes", "32"}, {"mode", "0755"}};
  return UniqueFd(sys::make_filesystem("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
}

Outcome tmpfs_with_limits() {
  const UniqueFd storage = limited_tmpfs();
  if (!storage) return failed("mount tmpfs");
  const UniqueFd file(::openat(storage.get(), "file", O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return failed("write to the tmpfs");
  if (::fallocate(file.get(), 0, 0, 2 << 20) == 0) return {.step = "the tmpfs takes more than its size"};
  if (errno != ENOSPC) return failed("fill the tmpfs");
  for (int made = 0; made < 64; ++made) {
    const char name[] = {static_cast<char>('0' + made), '\0'};
    if (::mkdirat(storage.get(), name, 0700) != 0) return errno == ENOSPC ? Outcome{} : failed("fill the tmpfs");
  }
  return {.step = "the tmpfs takes more files than its limit"};
}

// As a sandbox has it: an upper layer on a tmpfs over its root, and one without over the host's /usr.
Outcome overlay_in_namespace() {
  const UniqueFd storage = limited_tmpfs();
  // Any directory will do: the mount is seen by this process alone.
  if (!storage || !sys::attach(storage.get(), "/proc") || ::chdir("/proc") != 0) return failed("mount tmpfs");
  for (const char* directory : {"lower", "lower/seen", "upper", "work", "empty"}) {
    if (::mkdir(directory, 0755) != 0) return failed("make directories on the tmpfs");
  }
  const sys::MountOption written[] = {
      {"userxattr", nullptr}, {"lowerdir", "lower"}, {"upperdir", "upper"}, {"workdir", "work"}, {"xino", "off"}};
  const UniqueFd root(sys::make_filesystem("overlay", written, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
  if (!root) return failed("mount overlay");
  if (::mkdirat(root.get(), "seen/new", 0755) != 0) return failed("write through the overlay");
  if (::access("upper/seen/new", F_OK) != 0) return failed("find in the upper layer what was written");
  const sys::MountOption read[] = {{"userxattr", nullptr}, {"lowerdir", "/usr:empty"}, {"xino", "off"}};
  const UniqueFd usr(sys::make_filesystem("overlay", read, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_RDONLY));
  if (!usr) return failed("mount overlay over /usr");
  return ::faccessat(usr.get(), "bin", R_OK | X_OK, 0) == 0 ? Outcome{} : failed("read /usr through the overlay");
}

Outcome seccomp_filter() {
  if (!sys::set_no_new_privileges()) return failed("set no_new_privs");
  if (!sys::install_seccomp(sys::default_seccomp())) return failed("install the filter");
  if (::syscall(SYS_unshare, CLONE_NEWUSER) == 0) return {.step = "the filter let unshare(2) through"};
  if (errno != EPERM) return failed("be refused by the filter");
  if (::syscall(SYS_getppid) < 0) return failed("make an allowed call under the filter");
  return {};
}

Outcome landlock_rules() {
  const int abi = sys::landlock_abi();
  if (abi == 0) {
    errno = ENOSYS;
    return failed("use Landlock");
  }
  constexpr sys::PathRule kRules[] = {{"/usr", sys::PathUse::execute}};
  if (!sys::set_no_new_privileges()) return failed("set no_new_privs");
  if (!sys::restrict_with_landlock(kRules, abi, sys::SignalScope::own_domain)) return failed("turn on Landlock");
  const UniqueFd allowed(::open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!allowed) return failed("open what Landlock allows");
  const UniqueFd other(::open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (other) return {.step = "Landlock let through what it should refuse"};
  return errno == EACCES ? Outcome{} : failed("be refused by Landlock");
}

constexpr const char* kNoSandbox = "no sandbox can be made: every other lock depends on this one";

void add_namespaces(Checks& checks, const host::Identity& identity) {
  const std::string allow =
      "see user.max_user_namespaces, kernel.unprivileged_userns_clone and AppArmor below; in a container, allow clone, "
      "unshare and mount by its seccomp profile and its capabilities";
  checks.push_back(judged({.id = "namespaces",
                           .title = "namespaces",
                           .holds = "all seven kinds, and again inside",
                           .consequence = kNoSandbox,
                           .fix = allow},
                          in_namespaces(identity, nested_namespaces)));
  checks.push_back(judged({.id = "overlay",
                           .title = "overlay root",
                           .holds = "mounted in a user namespace and written to",
                           .consequence = kNoSandbox,
                           .fix = "run modprobe overlay, on Linux 5.11 or newer; " + allow},
                          in_namespaces(identity, overlay_in_namespace)));
  checks.push_back(
      judged({.id = "proc",
              .title = "/proc with subset=pid",
              .holds = "mounted; it shows processes and nothing else",
              .consequence = kNoSandbox,
              .fix = "run Linux 5.8 or newer; in a container, leave its /proc unmasked (systempaths=unconfined)"},
             in_namespaces(identity, proc_of_pids)));
  checks.push_back(judged({.id = "tmpfs",
                           .title = "tmpfs with limits",
                           .holds = "size and number of files are held",
                           .consequence = "no sandbox can be made: it could fill the host's memory with files",
                           .fix = allow},
                          in_namespaces(identity, tmpfs_with_limits)));
}

Check check_unique_uid(const Host& host, const host::Identity& identity) {
  const bool shared = identity.mode == host::IdentityMode::one_user;
  const Lock lock{
      .id = "unique_uid",
      .title = "one uid a sandbox",
      .holds = fmt::format("out of {} ids from {}", identity.count, identity.first),
      .consequence =
          "sandboxes share one uid: only namespaces keep them apart, and they share the kernel's per-user limits; "
          "serve one tenant only",
      .fix = host.uid == 0
                 ? "allow user id maps of more than one id; root of a user namespace may have none"
                 : "add a range to /etc/subuid and /etc/subgid and install the package uidmap, or run Cove as root",
  };
  const auto tried = shared ? Result<>(fail(Errc::unsupported, fmt::format("every sandbox is uid {}", identity.first)))
                            : in_namespaces(identity, second_id);
  return judged(lock, tried, host.uid == 0 || !shared ? Status::fail : Status::warn);
}

std::string cgroup_fix(const Host& host, const LimitFindings& findings) {
  if (host.uid != 0) {
    return "run Cove as root, or where cgroup v2 is delegated to you: systemd-run --user --scope -p Delegate=yes cove "
           "...";
  }
  if (findings.mode == sys::CgroupMode::none)
    return "mount cgroup v2 at /sys/fs/cgroup, writable; in a container, give it a cgroup of its own";
  return "boot with cgroup_enable=memory and the controllers memory, pids and cpu; in a container, delegate them to it";
}

Check check_cgroup_mode(const LimitFindings& findings, const std::string& fix) {
  std::string held;
  for (const auto& [name, result] :
       {std::pair{"memory", &findings.memory}, std::pair{"pids", &findings.pids}, std::pair{"cpu", &findings.cpu}}) {
    if (*result) held += (held.empty() ? "" : ", ") + std::string(name);
  }
  Check check{.id = "cgroup", .title = "control groups", .found = std::string(sys::name_of(findings.mode))};
  if (findings.mode != sys::CgroupMode::none)
    check.found += fmt::format(" with {}", held.empty() ? "no controller of use" : held);
  if (findings.shortcoming.empty()) return check;
  // One hierarchy tells why; the others say the same of themselves.
  const auto first = findings.shortcoming.substr(0, findings.shortcoming.find("; "));
  check.found +=
      fmt::format(": {}{}", first, first.size() < findings.shortcoming.size() ? ", and likewise the others" : "");
  check.status = Status::warn;
  check.consequence = "the limits below are not enforced, or only in part";
  check.fix = fix;
  return check;
}

void add_limits(Checks& checks, const Host& host) {
  const auto findings = try_limits();
  const auto fix = cgroup_fix(host, findings);
  // Without a group another lock does part of the work for an ordinary user; root is expected to have groups.
  const auto covered = host.uid == 0 ? Status::fail : Status::warn;
  checks.push_back(check_cgroup_mode(findings, fix));
  checks.push_back(
      judged({.id = "limit.memory",
              .title = "memory limit",
              .holds = "set and counted",
              .consequence = "only each process's address space is limited, not their sum: cove run refuses "
                             "without --allow-degraded",
              .fix = fix},
             findings.memory));
  checks.push_back(
      judged({.id = "limit.pids",
              .title = "process limit",
              .holds = "a process over it was refused",
              .consequence = "processes are limited by an rlimit: exact, but what it refused is not counted, so "
                             "a run is not reported as ended by it",
              .fix = fix},
             findings.pids, covered));
  checks.push_back(judged({.id = "limit.cpu",
                           .title = "cpu limit",
                           .holds = "a busy process was held back",
                           .consequence = "a busy sandbox takes every core: cove run refuses without --allow-degraded",
                           .fix = fix},
                          findings.cpu));
  checks.push_back(judged({.id = "cgroup.kill",
                           .title = "kill of the whole tree",
                           .holds = "by the group, at once",
                           .consequence = "sandboxes end only by the kill of their pid 1; nothing backs that up",
                           .fix = fix},
                          findings.kill, covered));
  checks.push_back(judged({.id = "cgroup.freeze",
                           .title = "pause",
                           .holds = "a group was frozen and thawed",
                           .consequence = "sandboxes cannot be paused",
                           .fix = fix},
                          findings.freeze, covered));
}

}  // namespace

Checks enforcement(const Host& host) {
  Checks checks;
  if (const auto identity = host::choose_identity()) {
    add_namespaces(checks, *identity);
    checks.push_back(check_unique_uid(host, *identity));
  } else {
    checks.push_back({.id = "unique_uid",
                      .title = "one uid a sandbox",
                      .status = Status::fail,
                      .found = identity.error().message,
                      .consequence = kNoSandbox,
                      .fix = "stop other cove processes on this host"});
  }
  const auto filter = sys::default_seccomp();
  checks.push_back(judged({.id = "seccomp",
                           .title = "seccomp filter",
                           .holds = fmt::format("default-{:016x}, {} instructions; refused what it should",
                                                sys::default_seccomp_hash(), filter.size()),
                           .consequence = "no sandbox can be made: every system call would be open",
                           .fix = "run a kernel with CONFIG_SECCOMP_FILTER; in a container, allow seccomp(2)"},
                          in_child(seccomp_filter)));
  checks.push_back(
      judged({.id = "landlock",
              .title = "Landlock",
              .holds = "refused what it should",
              .consequence = "no second wall behind the mount namespace: cove run refuses without --allow-degraded",
              .fix = "add landlock to lsm= on the kernel's command line, on Linux 5.13 or newer"},
             in_child(landlock_rules)));
  add_limits(checks, host);
  return checks;
}

}  // namespace cove::doctor
