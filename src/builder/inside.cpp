#include "builder/inside.hpp"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "sys/mount.hpp"
#include "sys/privilege.hpp"
#include "sys/process.hpp"

namespace cove::builder {
namespace {

constexpr std::uint64_t kNamespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
constexpr const char* kScratchSize = "268435456";

// A /tmp of our own, with the working directory in it: that may lie below the host's /tmp, or where only root can walk
// to, and as the working directory it came along.
bool own_scratch() {
  const sys::MountOption options[] = {{"size", kScratchSize}, {"mode", "1777"}};
  const UniqueFd shown(::open_tree(AT_FDCWD, ".", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  const UniqueFd scratch(sys::make_filesystem("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV));
  return shown && scratch && sys::attach(scratch.get(), "/tmp") && ::mkdir(kShown, 0755) == 0 &&
         sys::attach(shown.get(), kShown) && ::chdir("/") == 0;
}

bool settle_in(const UniqueFd& gate) {
  char byte = 0;
  if (::read(gate.get(), &byte, 1) != 1) return false;  // the maps could not be written
  if (::setgroups(0, nullptr) != 0 || !sys::set_ids(0, 0)) return false;
  // After the change of id, which clears it. Whoever was to hold us may be gone by now: then the gate is at its end.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  pollfd alive{.fd = gate.get(), .events = 0, .revents = 0};
  if (::poll(&alive, 1, 0) != 0) return false;
  ::umask(022);
  return sys::make_private() && own_scratch() && sys::set_no_new_privileges();
}

}  // namespace

Result<Inside> Inside::start(const host::Identity& identity, const std::string& directory,
                             const std::function<int()>& work) {
  if (identity.mode == host::IdentityMode::one_user)
    return fail(Errc::unsupported,
                "templates are built with user ids that this user does not have: run the server as root, or give the "
                "user a range in /etc/subuid and /etc/subgid");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  UniqueFd gate(ends[0]);
  Inside inside;
  inside.lifeline_.reset(ends[1]);
  if (::chdir(directory.c_str()) != 0) return fail_errno(errno, "enter {}", directory);
  auto clone = sys::clone_process({.namespaces = kNamespaces});
  if (clone.pid < 0) return fail_errno(errno, "make namespaces to build in");
  if (clone.pid == 0) {
    inside.lifeline_.reset();
    ::_exit(settle_in(gate) ? work() : 125);
  }
  if (::chdir("/") != 0) return fail_errno(errno, "enter /");
  inside.pid_ = clone.pid;
  inside.pidfd_ = std::move(clone.pidfd);
  COVE_CHECK(host::write_maps(identity, inside.pid_));
  if (::write(inside.lifeline_.get(), "g", 1) != 1) return fail_errno(errno, "let the work begin");
  return inside;
}

Inside::Inside(Inside&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::move(other.pidfd_)), lifeline_(std::move(other.lifeline_)) {}

Inside::~Inside() {
  if (pid_ < 0) return;
  sys::kill_process(pidfd_.get());  // the first of its pid namespace: all others go with it
  wait();
}

int Inside::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace cove::builder
