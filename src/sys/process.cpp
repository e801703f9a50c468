#include "sys/process.hpp"

#include <linux/sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cove::sys {

Clone clone_process(const CloneOptions& options) noexcept {
  int pidfd = -1;
  clone_args args{};
  args.flags =
      options.namespaces | CLONE_PIDFD | (options.cgroup_fd >= 0 ? static_cast<std::uint64_t>(CLONE_INTO_CGROUP) : 0);
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  args.cgroup = options.cgroup_fd >= 0 ? static_cast<std::uint64_t>(options.cgroup_fd) : 0;
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof args));
  Clone result;
  result.pid = pid;
  if (pid > 0) result.pidfd.reset(pidfd);
  return result;
}

bool kill_process(int pidfd) noexcept {
  return ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0;
}

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace cove::sys
