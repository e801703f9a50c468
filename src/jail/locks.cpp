#include "jail/locks.hpp"

#include <linux/keyctl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <span>

#include "sys/privilege.hpp"
#include "sys/seccomp.hpp"

namespace cove::jail {
namespace {

bool set_rlimits(const Locks& locks) noexcept {
  for (std::size_t i = 0; i < locks.rlimit_count; ++i) {
    if (::setrlimit(static_cast<__rlimit_resource>(locks.rlimits[i].resource), &locks.rlimits[i].value) != 0)
      return false;
  }
  return true;
}

// Rules hold for an inode and what lies below it. "/" is the sandbox's own root directory, so a file of the host,
// however it might be reached, has no rule above it. Few, because each is a first look-up in a new filesystem.
constexpr sys::PathRule kPathRules[] = {
    {"/", sys::PathUse::execute},
    {"/workspace", sys::PathUse::write},
    {"/tmp", sys::PathUse::write},
    {"/home", sys::PathUse::write},
    {"/var/tmp", sys::PathUse::write},
    {"/mnt", sys::PathUse::write},
    {"/data", sys::PathUse::write},
    {"/app", sys::PathUse::write},
    {"/dev", sys::PathUse::device},
    {"/dev/shm", sys::PathUse::write},
    {"/dev/pts", sys::PathUse::terminal},  // from here on only where there are
                                           // terminals
    {"/dev/tty", sys::PathUse::terminal},
};
constexpr std::size_t kTerminalRules = 2;

bool restrict_objects(const Locks& locks) noexcept {
  const auto left_out = locks.terminal == TerminalSupport::available ? 0 : kTerminalRules;
  return sys::restrict_with_landlock(std::span(kPathRules).first(std::size(kPathRules) - left_out), locks.landlock_abi,
                                     locks.signals);
}

}  // namespace

void default_signals() noexcept {
  const unsigned long none[4] = {};  // the kernel's own form: handler, flags, restorer, mask
  for (int number = 1; number <= 64; ++number) ::syscall(SYS_rt_sigaction, number, none, nullptr, sizeof none[0]);
}

bool reset_process() noexcept {
  sigset_t none;
  ::sigemptyset(&none);
  if (::sigprocmask(SIG_SETMASK, &none, nullptr) != 0) return false;
  ::umask(022);
  ::setsid();
  // The server's own parts come before sandboxes (server/supervisor.cpp).
  if (::getpriority(PRIO_PROCESS, 0) < 0 && ::setpriority(PRIO_PROCESS, 0, 0) != 0) return false;
  // A session keyring of its own, empty. A kernel without keys has none to share either.
  ::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr);
  return true;
}

Stage put_on(const Locks& locks) noexcept {
  const unsigned off = locks_left_off();
  if (!set_rlimits(locks)) return Stage::rlimits;
  if (locks.nice > 0) ::setpriority(PRIO_PROCESS, 0, locks.nice);
  // Fails where the host has taken these cores away since; the kernel's own choice is as good then.
  if (CPU_COUNT(&locks.cores) > 0) ::sched_setaffinity(0, sizeof locks.cores, &locks.cores);
  if (!sys::drop_all_capabilities() || !sys::set_no_new_privileges()) return Stage::capabilities;
  if ((off & kObjects) == 0 && locks.landlock_abi > 0 && !restrict_objects(locks)) return Stage::landlock;
  // Last: the steps above need more calls than anyone inside may make.
  if ((off & kSurface) == 0 && !sys::install_seccomp(sys::default_seccomp())) return Stage::seccomp;
  return Stage::none;
}

}  // namespace cove::jail
