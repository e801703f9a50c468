#include "init/child.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "init/files.hpp"

namespace cove::init {
namespace {

void close_all(std::initializer_list<int> fds) {
  for (const int fd : fds) {
    if (fd >= 0) ::close(fd);
  }
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

[[noreturn]] void give_up(int report, wire::SpawnStage stage, int sys_errno) {
  const ChildReport message{.stage = stage, .sys_errno = sys_errno};
  [[maybe_unused]] const auto n = ::write(report, &message, sizeof message);
  ::_exit(127);
}

// execvpe(3) without its falling back to a shell: a file that is no program is an error the caller should see.
void execute(const wire::Spawn& spawn) {
  const auto argv = pointers(spawn.argv);
  const auto environment = pointers(spawn.environment);
  const std::string& name = spawn.argv[0];
  if (name.find('/') != std::string::npos) {
    ::execve(name.c_str(), argv.data(), environment.data());
    return;
  }
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const auto& variable : spawn.environment) {
    if (variable.starts_with("PATH=")) path = variable.substr(5);
  }
  int result = ENOENT;
  for (std::size_t start = 0; start <= path.size();) {
    const auto end = std::min(path.find(':', start), path.size());
    const auto directory = path.substr(start, end - start);
    ::execve(((directory.empty() ? "." : directory) + "/" + name).c_str(), argv.data(), environment.data());
    // A match that may not be run is worth reporting, but a later directory may hold one that may.
    if (errno == EACCES) result = EACCES;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return;
    start = end + 1;
  }
  errno = result;
}

constexpr int kReport = 4;  // in the child, until it is its program

rlimit program_descriptors{};  // of what is started here
cpu_set_t program_cores{};     // the same

// Init's own hard limits leave room for the keeper to raise its soft ones while the sandbox lives. Nothing that init
// starts has that room: for it the soft limits of this moment are the hard ones.
bool fix_limits() {
  for (const auto resource : {RLIMIT_NPROC, RLIMIT_FSIZE}) {
    rlimit own{};
    if (::getrlimit(resource, &own) != 0) return false;
    own.rlim_max = own.rlim_cur;
    if (::setrlimit(resource, &own) != 0) return false;
  }
  return true;
}

struct ChildEnds {
  int in;
  int out;
  int err;
  int channel;
  int report;
};

[[noreturn]] void become(const wire::Spawn& spawn, const ChildEnds& ends) {
  if (!fix_limits()) give_up(ends.report, wire::SpawnStage::fork, errno);
  ::setsid();
  if (spawn.terminal == wire::Terminal::yes && ::ioctl(ends.in, TIOCSCTTY, 0) != 0)
    give_up(ends.report, wire::SpawnStage::terminal, errno);
  // Out of the way of 0 to 4 first: the numbers may be among them.
  const int report = ::fcntl(ends.report, F_DUPFD_CLOEXEC, 16);
  const int channel = ends.channel < 0 ? -1 : ::fcntl(ends.channel, F_DUPFD_CLOEXEC, 16);
  if (report < 0 || (ends.channel >= 0 && channel < 0)) give_up(ends.report, wire::SpawnStage::fork, errno);
  if (::dup2(ends.in, 0) < 0 || ::dup2(ends.out, 1) < 0 || ::dup2(ends.err, 2) < 0)
    give_up(report, wire::SpawnStage::fork, errno);
  if (::dup3(report, kReport, O_CLOEXEC) < 0) give_up(report, wire::SpawnStage::fork, errno);
  if (channel < 0)
    ::close(wire::kChannelFd);
  else if (::dup2(channel, wire::kChannelFd) < 0)
    give_up(kReport, wire::SpawnStage::fork, errno);
  // Init's own descriptors (the control socket, other processes' pipes) close here: not every kind calls exec.
  ::syscall(SYS_close_range, kReport + 1, ~0U, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  if (program_descriptors.rlim_max > 0) ::setrlimit(RLIMIT_NOFILE, &program_descriptors);
  if (CPU_COUNT(&program_cores) > 0) ::sched_setaffinity(0, sizeof program_cores, &program_cores);

  for (const auto& file : spawn.files) {
    if (const int failed = write_file(file.path, file.mode, file.content); failed != 0)
      give_up(kReport, wire::SpawnStage::files, failed);
  }
  if (!spawn.directory.empty() && ::chdir(spawn.directory.c_str()) != 0)
    give_up(kReport, wire::SpawnStage::directory, errno);
  switch (spawn.kind) {
    case wire::SpawnKind::program:
      execute(spawn);
      give_up(kReport, wire::SpawnStage::program, errno);
    case wire::SpawnKind::make_directory:
      ::close(kReport);
      ::_exit(make_directory(spawn.argv[0]));
  }
  give_up(kReport, wire::SpawnStage::program, EINVAL);
}

// Lives as long as anything the process started: orphans below it become its children and not init's, so that the tree
// stays one. It holds nothing but its pipe to init.
[[noreturn]] void supervise(pid_t watched, int status_fd) {
  [[maybe_unused]] const bool fixed = fix_limits();  // it starts nothing; its process checked it as well
  const bool moved = ::dup3(status_fd, 3, O_CLOEXEC) == 3 || status_fd == 3;
  ::syscall(SYS_close_range, 4, ~0U, 0);
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  SupervisorMessage word{.kind = SupervisorMessage::Kind::started, .pid = watched};
  bool sent = moved && ::write(3, &word, sizeof word) == sizeof word;
  while (sent) {
    rusage usage{};
    int status = 0;
    const pid_t ended = ::wait4(-1, &status, 0, &usage);
    if (ended < 0 && errno == EINTR) continue;
    if (ended < 0) break;  // no child is left
    if (ended != watched) continue;
    word = {.kind = SupervisorMessage::Kind::ended, .pid = watched, .status = status, .cpu_usec = cpu_usec(usage)};
    sent = ::write(3, &word, sizeof word) == sizeof word;
    ::close(3);
  }
  ::_exit(0);
}

bool set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

// A new terminal of this sandbox's own devpts: {master, slave}.
std::pair<int, int> open_terminal(const wire::Spawn& spawn) {
  const int master = ::open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (master < 0) return {-1, -1};
  int unlock = 0;
  const winsize size{.ws_row = spawn.rows, .ws_col = spawn.columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int slave = -1;
  if (::ioctl(master, TIOCSPTLCK, &unlock) == 0 && ::ioctl(master, TIOCSWINSZ, &size) == 0) {
    slave = ::ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  if (slave < 0) {
    const int saved = errno;
    ::close(master);
    errno = saved;
    return {-1, -1};
  }
  return {master, slave};
}

}  // namespace

void raise_descriptor_limit() {
  if (::getrlimit(RLIMIT_NOFILE, &program_descriptors) != 0) return;
  rlimit all = program_descriptors;
  all.rlim_cur = all.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &all);
}

void leave_cores_to_programs() {
  if (::sched_getaffinity(0, sizeof program_cores, &program_cores) != 0) return;
  cpu_set_t all;
  memset(&all, 0xff, sizeof all);
  ::sched_setaffinity(0, sizeof all, &all);  // the kernel takes those that there are
}

std::uint64_t cpu_usec(const rusage& usage) {
  return static_cast<std::uint64_t>((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 +
                                    usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

Spawned start_child(const wire::Spawn& spawn, ChildReport& failure) {
  const bool supervised = spawn.supervision == wire::Supervision::tree;
  std::array<int, 2> status{-1, -1};
  std::array<int, 2> in{-1, -1};
  std::array<int, 2> out{-1, -1};
  std::array<int, 2> err{-1, -1};
  std::array<int, 2> report{-1, -1};
  std::array<int, 2> channel{-1, -1};
  const auto failed = [&](wire::SpawnStage stage) {
    failure = {.stage = stage, .sys_errno = errno};
    close_all({in[0], in[1], out[0], out[1], err[0], err[1], report[0], report[1], status[0], status[1], channel[0],
               channel[1]});
    return Spawned{};
  };
  if (::pipe2(report.data(), O_CLOEXEC) != 0) return failed(wire::SpawnStage::fork);
  if (supervised && ::pipe2(status.data(), O_CLOEXEC) != 0) return failed(wire::SpawnStage::fork);
  if (spawn.channel == wire::Channel::open &&
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, channel.data()) != 0)
    return failed(wire::SpawnStage::fork);
  if (spawn.terminal == wire::Terminal::yes) {
    const auto [master, slave] = open_terminal(spawn);
    if (master < 0) return failed(wire::SpawnStage::terminal);
    in = {slave, master};
    out = {::fcntl(master, F_DUPFD_CLOEXEC, 3), -1};
    if (out[0] < 0) return failed(wire::SpawnStage::terminal);
  } else if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0 ||
             ::pipe2(err.data(), O_CLOEXEC) != 0) {
    return failed(wire::SpawnStage::fork);
  }
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (supervised) {
      ::setsid();
      ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
      const pid_t watched = ::fork();
      if (watched < 0) give_up(report[1], wire::SpawnStage::fork, errno);
      if (watched > 0) supervise(watched, status[1]);
    }
    const bool terminal = spawn.terminal == wire::Terminal::yes;
    become(spawn, {.in = in[0],
                   .out = terminal ? in[0] : out[1],
                   .err = terminal ? in[0] : err[1],
                   .channel = channel[1],
                   .report = report[1]});
  }
  if (pid < 0) return failed(wire::SpawnStage::fork);
  close_all({in[0], out[1], err[1], report[1], status[1], channel[1]});
  set_nonblocking(in[1]);
  set_nonblocking(out[0]);
  if (err[0] >= 0) set_nonblocking(err[0]);
  set_nonblocking(report[0]);
  if (supervised) set_nonblocking(status[0]);
  if (channel[0] >= 0) set_nonblocking(channel[0]);
  return Spawned{.pid = pid,
                 .input = in[1],
                 .output = out[0],
                 .error = err[0],
                 .report = report[0],
                 .status = status[0],
                 .channel = channel[0]};
}

}  // namespace cove::init
