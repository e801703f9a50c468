#include "mcp/host/minder.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "sys/process.hpp"

namespace cove::mcp::host {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const auto& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

void plain_signals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGHUP, SIGTERM, SIGINT, SIGCHLD}) ::signal(number, SIG_DFL);
}

// The program's own side of the fork.
[[noreturn]] void become(char* const* argv, char* const* environment, const char* directory,
                         const std::array<int, 3>& streams, int report, pid_t minder) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  bool good = ::getppid() == minder && ::chdir(directory) == 0;
  for (int i = 0; i < 3; ++i) good = good && ::dup2(streams.at(static_cast<std::size_t>(i)), i) == i;
  // The report is above these, and closes when the program begins.
  if (good) ::execvpe(argv[0], argv, environment);
  const int why = errno;
  [[maybe_unused]] const auto told = ::write(report, &why, sizeof why);
  ::_exit(127);
}

void tell(int control, int word) {
  [[maybe_unused]] const auto sent = ::send(control, &word, sizeof word, MSG_NOSIGNAL);
}

// Passes signals on until the program has ended or nobody holds the other end. Returns how it ended.
int mind(pid_t program, int pidfd, int control) {
  std::array<pollfd, 2> events{pollfd{.fd = pidfd, .events = POLLIN, .revents = 0},
                               pollfd{.fd = control, .events = POLLIN, .revents = 0}};
  while (true) {
    if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) break;
    if (events[0].revents != 0) break;
    if (events[1].revents == 0) continue;
    char word = 0;
    const auto size = ::recv(control, &word, 1, 0);
    if (size <= 0) break;
    if (word == 'T') ::kill(program, SIGTERM);
    if (word == 'K') ::kill(-program, SIGKILL);
  }
  ::kill(-program, SIGKILL);  // what it has started, and itself if it still runs
  ::kill(program, SIGKILL);
  int status = 0;
  while (::waitpid(program, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Nothing of the caller's is kept alive by its minders: its locks, its sockets.
void keep_open(std::array<int, 3> kept) {
  std::ranges::sort(kept);
  unsigned from = 3;
  for (const int fd : kept) {
    if (fd < 3) continue;
    if (static_cast<unsigned>(fd) > from) ::close_range(from, static_cast<unsigned>(fd) - 1, 0);
    from = static_cast<unsigned>(fd) + 1;
  }
  ::close_range(from, ~0U, 0);
}

struct Ends {
  UniqueFd read;
  UniqueFd write;
};

Result<Ends> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  return Ends{.read = UniqueFd(ends[0]), .write = UniqueFd(ends[1])};
}

[[noreturn]] void become_minder(const Command& command, std::array<UniqueFd, 3> streams, UniqueFd control,
                                const std::function<bool()>& drop, pid_t caller) {
  ::prctl(PR_SET_NAME, "cove-minder");
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  plain_signals();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGTERM, SIG_IGN);  // it ends with what it minds
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  // Another user is not ended with its parent unless it says so again.
  const bool dropped = drop();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (!dropped || ::getppid() != caller) ::_exit(1);
  std::array<int, 2> report{};
  if (::pipe2(report.data(), O_CLOEXEC) != 0) ::_exit(1);
  // The program's streams are put in the places 0 to 2; nothing that is needed may lie there.
  std::array<int, 3> own{};
  for (std::size_t i = 0; i < 3; ++i) own.at(i) = ::fcntl(streams.at(i).get(), F_DUPFD_CLOEXEC, 10);
  const int told = ::fcntl(report[1], F_DUPFD_CLOEXEC, 10);
  ::close(report[1]);
  for (auto& stream : streams) stream.reset();
  const auto argv = pointers(command.argv);
  const auto environment = pointers(command.environment);
  // The program is looked for as it will see the world.
  ::clearenv();
  for (auto* variable : environment) {
    if (variable != nullptr) ::putenv(variable);
  }
  const auto self = ::getpid();
  auto clone = sys::clone_process({});
  if (clone.pid == 0) {
    plain_signals();
    become(argv.data(), environment.data(), command.directory.c_str(), own, told, self);
  }
  for (const int fd : own) ::close(fd);
  ::close(told);
  keep_open({report[0], control.get(), clone.pidfd.get()});
  if (clone.pid < 0) {
    tell(control.get(), -1 - errno);
    ::_exit(1);
  }
  int why = 0;
  const bool failed = ::read(report[0], &why, sizeof why) == static_cast<ssize_t>(sizeof why);
  const auto status = mind(clone.pid, clone.pidfd.get(), control.get());
  tell(control.get(), failed ? -1 - why : status);
  ::_exit(0);
}

}  // namespace

Result<Minded> start(const Command& command, const std::function<bool()>& drop) {
  if (command.argv.empty()) return fail(Errc::invalid, "there is no command");
  COVE_TRY(auto input, make_pipe());
  COVE_TRY(auto output, make_pipe());
  COVE_TRY(auto errors, make_pipe());
  std::array<int, 2> control{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control.data()) != 0)
    return fail_errno(errno, "socketpair");
  UniqueFd ours(control[0]);
  UniqueFd theirs(control[1]);
  const auto caller = ::getpid();
  auto clone = sys::clone_process({});
  if (clone.pid < 0) return fail_errno(errno, "start {}", command.argv.front());
  if (clone.pid == 0) {
    input.write.reset();
    output.read.reset();
    errors.read.reset();
    ours.reset();
    become_minder(command, {std::move(input.read), std::move(output.write), std::move(errors.write)}, std::move(theirs),
                  drop, caller);
  }
  return Minded{.input = std::move(input.write),
                .output = std::move(output.read),
                .errors = std::move(errors.read),
                .control = std::move(ours),
                .minder = clone.pid};
}

}  // namespace cove::mcp::host
