#include "zygote/start.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "jail/locks.hpp"
#include "jail/root.hpp"
#include "sys/mount.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"
#include "zygote/birth.hpp"

namespace cove::zygote {
namespace {

// Everything its children could ever read of an environment (docs/attacks.md ZY-05): none of it is anybody's secret.
// One thread each: a library that starts more before the fork would leave its children waiting for them.
constexpr const char* kEnvironment[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin",
    "LANG=C.UTF-8",
    "HOME=/tmp",
    "OPENBLAS_NUM_THREADS=1",
    "OMP_NUM_THREADS=1",
    "MKL_NUM_THREADS=1",
    "MPLBACKEND=agg",
    "MPLCONFIGDIR=/tmp/mpl",
};

// To enter a sandbox's namespaces through its init, which nobody may look into, and to take its ids.
constexpr int kCapabilities[] = {CAP_SYS_ADMIN, CAP_SYS_CHROOT, CAP_SYS_PTRACE, CAP_SETUID, CAP_SETGID};

bool set_descriptors(int socket, int own_proc) noexcept {
  const int moved = ::fcntl(socket, F_DUPFD_CLOEXEC, 10);
  const int moved_proc = ::fcntl(own_proc, F_DUPFD_CLOEXEC, 10);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (moved < 0 || moved_proc < 0 || null < 0) return false;
  for (int fd = 0; fd <= 2; ++fd) {
    if (::dup2(null, fd) < 0) return false;
  }
  return ::dup2(moved, kSocket) >= 0 && ::dup2(moved_proc, kOwnProc) >= 0 &&
         ::syscall(SYS_close_range, kOwnProc + 1, ~0U, 0) == 0;
}

// A host short of memory takes a zygote before it takes anything of its own; children inherit that.
bool volunteer() noexcept {
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // the keeper's change of id gave our files in /proc to the host's root
  const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  const bool written = fd >= 0 && ::write(fd, "500", 3) == 3;
  ::close(fd);
  return written;
}

// The far side of the fork: no allocation, no locks.
[[noreturn]] void become_zygote(const jail::Plan& plan, int socket, char* const* argv) noexcept {
  std::array<char*, std::size(kEnvironment) + 1> environment{};
  for (std::size_t i = 0; i < std::size(kEnvironment); ++i) environment[i] = const_cast<char*>(kEnvironment[i]);
  jail::default_signals();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  const int own_proc = ::open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
  const bool ready = volunteer() && sys::make_private() && jail::make_storage(plan) && jail::make_root(plan) &&
                     jail::make_trees(plan) && jail::make_devices(plan) && sys::change_root(".") &&
                     jail::reset_process() && set_descriptors(socket, own_proc) && sys::keep_only(kCapabilities) &&
                     sys::set_no_new_privileges();
  if (ready) ::execve(argv[0], argv, environment.data());
  ::_exit(125);
}

}  // namespace

Result<Started> start(const jail::Plan& plan, char* const* argv) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail_errno(errno, "socketpair");
  UniqueFd ours(ends[0]);
  const UniqueFd theirs(ends[1]);
  if (::fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0) return fail_errno(errno, "fcntl");
  auto clone = sys::clone_process({.namespaces = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS});
  if (clone.pid == 0) become_zygote(plan, theirs.get(), argv);
  if (clone.pid < 0) return fail_errno(errno, "fork a zygote");
  return Started{.pid = clone.pid, .pidfd = std::move(clone.pidfd), .socket = std::move(ours)};
}

}  // namespace cove::zygote
