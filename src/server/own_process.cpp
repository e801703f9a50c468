#include "server/own_process.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

namespace cove::server {
namespace {

constexpr int kServerNice = -5;

}  // namespace

Result<UniqueFd> prepare_process() {
  // The server's own processes come before whatever runs in sandboxes, which lose this priority (jail::reset_process).
  // Without root the call fails, and all are equal.
  ::setpriority(PRIO_PROCESS, 0, kServerNice);
  // Sandboxes of a keeper that died become our children, so that they are reaped.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  sigset_t handled;
  ::sigemptyset(&handled);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) ::sigaddset(&handled, number);
  ::sigprocmask(SIG_BLOCK, &handled, nullptr);
  UniqueFd signals(::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return fail_errno(errno, "signalfd");
  return signals;
}

}  // namespace cove::server
