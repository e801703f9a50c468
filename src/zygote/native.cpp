// The zygote's native half, a shared library that any CPython loads with ctypes. The interpreter calls
// cove_zygote_serve and stays in it; what returns from there is a newborn inside a sandbox with every lock on.

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "sys/privilege.hpp"
#include "sys/record.hpp"
#include "zygote/birth.hpp"

namespace cove::zygote {
namespace {

constexpr int kNamespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

struct Birth {
  BirthRequest request;
  std::vector<UniqueFd> fds;
};

void report_failure(int report, jail::Stage stage) noexcept {
  const Born word{.failure = {.stage = stage, .sys_errno = errno}};
  [[maybe_unused]] const auto n = ::write(report, &word, sizeof word);
}

bool join_groups(const Birth& birth) noexcept {
  const auto first = kFirstGroupFd + birth.request.has_unified;
  for (std::size_t i = first; i < birth.fds.size(); ++i) {
    if (::write(birth.fds[i].get(), "0", 1) != 1) return false;
  }
  return true;
}

// A stand-in that shares memory makes the kernel forget who reads the processor's number from it. Fails where it has
// not.
void register_rseq() noexcept {
#if defined(__x86_64__) || defined(__aarch64__)
  if (__rseq_size == 0) return;
  auto* area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  ::syscall(SYS_rseq, area, 32, 0, RSEQ_SIG);
#endif
}

bool set_descriptors(Birth& birth, int& report) noexcept {
  // Out of the way of 0 to 4 first: the numbers may be among them.
  int moved[5];
  const std::size_t order[] = {kStdin, kStdout, kStderr, kChannel, kReport};
  for (std::size_t i = 0; i < 5; ++i) {
    moved[i] = ::fcntl(birth.fds[order[i]].get(), F_DUPFD_CLOEXEC, 64);
    if (moved[i] < 0) return false;
  }
  report = moved[4];
  for (int fd = 0; fd < 5; ++fd) {
    if (::dup3(moved[fd], fd, fd >= 3 ? O_CLOEXEC : 0) < 0) return false;
  }
  report = 4;
  return ::syscall(SYS_close_range, 5, ~0U, 0) == 0;
}

// The newborn's way into its sandbox. Never comes back on failure.
void enter(Birth& birth) noexcept {
  register_rseq();
  int report = birth.fds[kReport].get();
  const auto die = [&](jail::Stage stage) {
    report_failure(report, stage);
    ::_exit(125);
  };
  if (::setns(birth.fds[kInit].get(), kNamespaces) != 0) die(jail::Stage::namespaces);
  if (!sys::set_ids(jail::kInnerUid, jail::kInnerGid)) die(jail::Stage::take_ids);
  if (!jail::reset_process() || !set_descriptors(birth, report)) die(jail::Stage::descriptors);
  if (const auto stage = jail::put_on(birth.request.locks); stage != jail::Stage::none) die(stage);
  // With the locks on and nothing else open: whatever the sandbox has made of the name, it is followed as anybody
  // inside could follow it.
  if (::chdir("/workspace") != 0) die(jail::Stage::change_root);
  // Only now: what lacks a lock must not be looked into by others of the same uid.
  ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  const Born word{.pid = ::getpid()};
  if (::write(report, &word, sizeof word) != static_cast<ssize_t>(sizeof word)) ::_exit(125);
  ::close(report);
  // What was open is closed; the vector must not close the numbers again.
  for (auto& fd : birth.fds) [[maybe_unused]]
    const int forgotten = fd.release();
}

// Runs as the stand-in, in the sandbox's pid namespace and groups. Ends there; returns in the newborn.
[[gnu::noinline]] void stand_in(Birth& birth) noexcept {
  // Or a newborn that ends before us would be gone without init's knowing.
  ::signal(SIGCHLD, SIG_DFL);
  if (!join_groups(birth)) {
    report_failure(birth.fds[kReport].get(), jail::Stage::join_cgroup);
    ::_exit(1);
  }
  // glibc's own: the newborn's thread must know its new id, and libraries may have asked to hear of forks.
  const pid_t newborn = ::fork();
  if (newborn < 0) report_failure(birth.fds[kReport].get(), jail::Stage::fork);
  if (newborn != 0) ::_exit(0);
}

// The stand-in's end makes the newborn a child of the sandbox's init. Where it can be sure not to be held up it borrows
// our memory, as of vfork(2), so that only the newborn's own fork copies it. 0 in the newborn; in the zygote the
// stand-in's pid, or -1.
[[gnu::noinline]] long begin(Birth& birth) noexcept {
  clone_args args{};
  args.exit_signal = SIGCHLD;
  if (birth.request.has_unified != 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(birth.fds[kFirstGroupFd].get());
  }
  long pid = -1;
#if defined(__x86_64__)
  if (birth.request.alone != 0) args.flags |= CLONE_VM | CLONE_VFORK;
  // Inline: two processes return here on one stack, and a call's return address would be overwritten by the first.
  asm volatile("syscall" : "=a"(pid) : "a"(SYS_clone3), "D"(&args), "S"(sizeof args) : "rcx", "r11", "memory");
  if (pid < 0) {
    errno = static_cast<int>(-pid);
    pid = -1;
  }
#else
  pid = ::syscall(SYS_clone3, &args, sizeof args);
#endif
  if (pid == 0) stand_in(birth);
  return pid;
}

// True in the newborn.
bool give_birth(Birth& birth) noexcept {
  // For children alone; forks of this process that are not births do not happen.
  if (::setns(birth.fds[kInit].get(), CLONE_NEWPID) != 0) {
    report_failure(birth.fds[kReport].get(), jail::Stage::namespaces);
    return false;
  }
  const long pid = begin(birth);
  if (pid == 0) {
    enter(birth);
    return true;
  }
  if (pid < 0) report_failure(birth.fds[kReport].get(), jail::Stage::fork);
  return false;
}

// Memory of this process that was written to and belongs to no file, as [begin, end) of whole huge pages.
template <typename Use>
void for_each_heap(Use use) {
  const UniqueFd maps(::openat(kOwnProc, "maps", O_RDONLY | O_CLOEXEC));
  std::string text;
  char chunk[4096];
  for (ssize_t n = 0; (n = ::read(maps.get(), chunk, sizeof chunk)) > 0;)
    text.append(chunk, static_cast<std::size_t>(n));
  for (std::size_t at = 0, end_of_line = 0; (end_of_line = text.find('\n', at)) != std::string::npos;
       at = end_of_line + 1) {
    const auto line = text.substr(at, end_of_line - at);  // sscanf would go on into the next for a name
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned long inode = 0;
    char mode[5] = {};
    char name[16] = {};
    const int fields = std::sscanf(line.c_str(), "%lx-%lx %4s %*x %*s %lu %15s", &begin, &end, mode, &inode, name);
    const bool heap = fields == 4 || std::strcmp(name, "[heap]") == 0;
    if (fields < 4 || inode != 0 || mode[1] != 'w' || !heap) continue;
    constexpr unsigned long kHuge = 2UL << 20;
    begin = (begin + kHuge - 1) / kHuge * kHuge;
    end = end / kHuge * kHuge;
    if (begin < end) use(reinterpret_cast<void*>(begin), end - begin);
  }
}

// A fork copies one entry for a huge page where it would copy 512, and an exit drops one; a child that writes into one
// still copies 4 KiB. A kernel that cannot leaves everything as it was.
void collapse_memory() {
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, since 6.1
  for_each_heap([](void* begin, std::size_t size) { ::madvise(begin, size, kCollapse); });
  ::close(kOwnProc);
}

int serve() {
  collapse_memory();
  // Its children begin so as well. To rely on the change of ids for that is not enough: without root there is none, and
  // fs.suid_dumpable may say otherwise.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // Stand-ins leave no zombie: a sandbox's pid namespace cannot end while there is one.
  ::signal(SIGCHLD, SIG_IGN);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  for (Ready ready;; ++ready.births) {
    if (sys::send_record(kSocket, std::as_bytes(std::span(&ready, 1))) < 0) ::_exit(0);  // as below
    Birth birth;
    ssize_t n = 0;
    do {
      n = sys::receive_record(kSocket, std::as_writable_bytes(std::span(&birth.request, 1)), birth.fds,
                              sys::Waiting::yes);
    } while (n < 0 && errno == EINTR);
    if (n != static_cast<ssize_t>(sizeof birth.request)) ::_exit(0);  // the keeper is gone, or has another
    if (birth.fds.size() < kFirstGroupFd + birth.request.has_unified) continue;
    if (give_birth(birth)) return 0;
  }
}

alignas(16) char holder_stack[4096];
pid_t holder_maker = 0;

// Shares the memory of the process that made it until that one is gone.
int hold(void* /*unused*/) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  while (::getppid() == holder_maker) ::pause();
  ::_exit(0);
}

// Ends the process. The kernel tells of an end when the memory is taken apart, 2 to 3 ms with everything loaded, unless
// another process has a share in it: then that one's end, which nobody waits for, does this work. What it would keep
// open is closed before, so that readers see the end of their pipes. Without a holder the end is as true, only later.
[[noreturn]] void leave(int status) noexcept {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::syscall(SYS_close_range, 0, ~0U, 0);
  holder_maker = ::getpid();
  ::clone(hold, holder_stack + sizeof holder_stack, CLONE_VM | CLONE_FILES, nullptr);
  ::_exit(status);
}

}  // namespace
}  // namespace cove::zygote

extern "C" __attribute__((visibility("default"))) int cove_zygote_serve() {
  return cove::zygote::serve();
}

extern "C" __attribute__((visibility("default"))) void cove_zygote_leave(int status) {
  cove::zygote::leave(status);
}
