#include "server/egress_process.hpp"

#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "egress/service.hpp"
#include "server/kept_descriptors.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"

namespace cove::server {
namespace {

// Another id than the front's: neither can send signals to the other, or look into it.
bool drop_privileges(const FrontHome& home) {
  if (::geteuid() == 0) {
    const auto owner = home.egress_owner();
    if (::setgroups(0, nullptr) != 0 || !sys::set_ids(owner, owner)) return false;
  }
  return sys::give_up_capabilities() && sys::set_no_new_privileges();
}

[[noreturn]] void become_egress(const config::Config& config, const FrontHome& home, int socket, pid_t supervisor) {
  ::prctl(PR_SET_NAME, "cove-egress");
  ::setsid();
  if (!drop_privileges(home) || !keep_only({socket})) ::_exit(1);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);  // it ends with its front, which drains first
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (::getppid() != supervisor) ::_exit(1);
  ::_exit(egress::serve({.front = UniqueFd(3), .resolver = config.resolver, .ca_file = config.outbound.ca_file}));
}

}  // namespace

Result<UniqueFd> EgressProcess::start(const config::Config& config, const FrontHome& home) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return fail_errno(errno, "socketpair");
  UniqueFd front(ends[0]);
  const UniqueFd own(ends[1]);
  const auto supervisor = ::getpid();
  auto clone = sys::clone_process({});
  if (clone.pid < 0) return fail_errno(errno, "start the egress process");
  if (clone.pid == 0) {
    front.reset();
    become_egress(config, home, own.get(), supervisor);
  }
  pid_ = clone.pid;
  return front;
}

}  // namespace cove::server
