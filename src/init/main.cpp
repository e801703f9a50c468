#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "init/child.hpp"
#include "init/stream.hpp"
#include "wire/init_messages.hpp"

namespace cove::init {
namespace {

constexpr int kControl = 3;
constexpr std::size_t kReadChunk = 64U << 10;
constexpr std::size_t kOutboxRoom = 512U << 10;  // no more output is framed while this much waits for the front
constexpr std::int64_t kDrainMillis = 100;       // how long output may trickle in after its process ended

std::int64_t now_millis() {
  timespec ts{};
  ::clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / 1'000'000;
}

struct Process {
  Process(std::uint32_t process_id, const wire::Spawn& spawn)
      : id(process_id),
        terminal(spawn.terminal),
        after_exit(spawn.after_exit),
        flood_limit(spawn.flood_limit),
        out(spawn.output_limit),
        err(spawn.output_limit) {}

  std::uint32_t id;
  wire::Terminal terminal;
  wire::AfterExit after_exit;
  std::uint64_t flood_limit;
  pid_t pid = -1;
  int report = -1;
  int input = -1;
  Stream out;
  Stream err;
  std::string pending_input;
  std::uint64_t input_taken = 0;
  bool input_ends = false;
  bool flood_told = false;

  bool reaped = false;
  std::int64_t drain_until = 0;  // once reaped
  wire::Exited exit;
  bool told = false;  // its exit has been reported; only leftovers of its streams remain
};

class Init {
 public:
  int run();

 private:
  void take_frames();
  void handle(const wire::Frame& frame);
  void spawn(std::uint32_t id, const wire::Spawn& request);
  void read_report(Process& process);
  void feed_input(Process& process);
  void pump(Process& process, Stream& stream, wire::Stream which);
  void frame_output(Process& process, Stream& stream, wire::Stream which);
  void reap();
  void settle(Process& process);
  void flush();
  Process* find(std::uint32_t id);
  void close_input(Process& process);
  [[nodiscard]] int poll_timeout() const;

  std::vector<Process> processes_;  // grows only while frames are read, when nobody holds a reference
  wire::FrameReader inbox_;
  std::string outbox_;
  std::size_t outbox_sent_ = 0;
  bool connected_ = true;
  bool ending_ = false;  // leave once everything has been said
  std::vector<char> scratch_ = std::vector<char>(kReadChunk);
};

Process* Init::find(std::uint32_t id) {
  const auto found =
      std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) { return p.id == id && !p.told; });
  return found == processes_.end() ? nullptr : &*found;
}

void Init::close_input(Process& process) {
  if (process.input >= 0) ::close(process.input);
  process.input = -1;
  process.pending_input.clear();
}

void Init::spawn(std::uint32_t id, const wire::Spawn& request) {
  ChildReport failure;
  const auto spawned = start_child(request, failure);
  if (spawned.pid < 0) {
    wire::append_frame(outbox_, wire::FrameType::spawn_failed, id,
                       wire::encode(wire::SpawnFailed{.stage = failure.stage, .sys_errno = failure.sys_errno}));
    return;
  }
  auto& process = processes_.emplace_back(id, request);
  process.pid = spawned.pid;
  process.report = spawned.report;
  process.input = spawned.input;
  process.out.open(spawned.output);
  process.err.open(spawned.error);
}

void Init::handle(const wire::Frame& frame) {
  if (frame.type == wire::FrameType::kill_everything) {
    ::kill(-1, SIGKILL);
    return;
  }
  if (frame.type == wire::FrameType::spawn) {
    const auto request = wire::decode_spawn(frame.payload);
    if (!request || frame.process == 0 || find(frame.process) != nullptr) {
      wire::append_frame(outbox_, wire::FrameType::spawn_failed, frame.process,
                         wire::encode(wire::SpawnFailed{.stage = wire::SpawnStage::fork, .sys_errno = EINVAL}));
      return;
    }
    spawn(frame.process, *request);
    return;
  }
  auto* process = find(frame.process);
  if (process == nullptr) return;  // it ended while this was on its way
  switch (frame.type) {
    case wire::FrameType::input:
      if (process->input >= 0 && !process->input_ends) process->pending_input.append(frame.payload);
      feed_input(*process);
      break;
    case wire::FrameType::input_end:
      process->input_ends = true;
      feed_input(*process);
      break;
    case wire::FrameType::acknowledge:
      if (const auto ack = wire::decode_acknowledge(frame.payload)) {
        (ack->stream == wire::Stream::out ? process->out : process->err).acknowledge(ack->offset);
      }
      break;
    case wire::FrameType::signal:
      // To the process's own group, as a terminal would; init keeps the pid from being reused until it is reaped.
      if (const auto number = wire::decode_number(frame.payload); number && *number < 65 && !process->reaped) {
        ::kill(-process->pid, static_cast<int>(*number));
      }
      break;
    case wire::FrameType::resize:
      if (const auto size = wire::decode_number(frame.payload);
          size && process->terminal == wire::Terminal::yes && process->input >= 0) {
        const winsize window{.ws_row = static_cast<unsigned short>(*size >> 16),
                             .ws_col = static_cast<unsigned short>(*size & 0xffff),
                             .ws_xpixel = 0,
                             .ws_ypixel = 0};
        ::ioctl(process->input, TIOCSWINSZ, &window);
      }
      break;
    default:
      break;
  }
}

void Init::take_frames() {
  while (true) {
    const auto n = ::recv(kControl, scratch_.data(), scratch_.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (n <= 0) {
      connected_ = false;
      return;
    }
    inbox_.append({scratch_.data(), static_cast<std::size_t>(n)});
    while (const auto frame = inbox_.next()) handle(*frame);
    if (inbox_.broken()) connected_ = false;
    if (static_cast<std::size_t>(n) < scratch_.size()) break;
  }
}

void Init::read_report(Process& process) {
  ChildReport failure;
  const auto n = ::read(process.report, &failure, sizeof failure);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  ::close(process.report);
  process.report = -1;
  if (n == static_cast<ssize_t>(sizeof failure)) {
    wire::append_frame(outbox_, wire::FrameType::spawn_failed, process.id,
                       wire::encode(wire::SpawnFailed{.stage = failure.stage, .sys_errno = failure.sys_errno}));
    process.told = true;
    process.out.close();
    process.err.close();
    close_input(process);
    return;
  }
  wire::append_frame(outbox_, wire::FrameType::started, process.id,
                     wire::encode_number(static_cast<std::uint64_t>(process.pid)));
}

void Init::feed_input(Process& process) {
  while (process.input >= 0 && !process.pending_input.empty()) {
    const auto n = ::write(process.input, process.pending_input.data(), process.pending_input.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) {  // EPIPE: it will never read; the rest has nowhere to go
      close_input(process);
      break;
    }
    process.input_taken += static_cast<std::uint64_t>(n);
    process.pending_input.erase(0, static_cast<std::size_t>(n));
    wire::append_frame(outbox_, wire::FrameType::input_room, process.id, wire::encode_number(process.input_taken));
  }
  if (process.input_ends && process.pending_input.empty() && process.input >= 0) {
    // A terminal has no end to close: the line discipline's end-of-file character says it.
    if (process.terminal == wire::Terminal::yes) {
      [[maybe_unused]] const auto n = ::write(process.input, "\x04", 1);
      process.input_ends = false;
    } else {
      close_input(process);
    }
  }
}

void Init::frame_output(Process& process, Stream& stream, wire::Stream which) {
  while (outbox_.size() - outbox_sent_ < kOutboxRoom && !stream.all_sent()) {
    const auto bytes = stream.unsent(kReadChunk);
    wire::append_frame(outbox_, wire::FrameType::output, process.id,
                       wire::encode(wire::Output{.stream = which, .offset = stream.sent_offset(), .bytes = bytes}));
    stream.mark_sent(bytes.size());
  }
}

void Init::pump(Process& process, Stream& stream, wire::Stream which) {
  // A few reads a turn, so that one flood does not keep the others from being heard.
  for (int turn = 0; turn < 16 && stream.wants_input(); ++turn) {
    const auto read = stream.read_some(scratch_.data(), scratch_.size());
    if (read == Stream::Read::end) stream.close();
    if (read != Stream::Read::some) break;
  }
  frame_output(process, stream, which);
  if (!process.flood_told && process.flood_limit > 0 && stream.thrown_away() > process.flood_limit) {
    process.flood_told = true;
    wire::append_frame(outbox_, wire::FrameType::flood, process.id, {});
  }
}

void Init::reap() {
  while (true) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &usage);
    if (pid <= 0) return;
    const auto found =
        std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) { return p.pid == pid && !p.reaped; });
    if (found == processes_.end()) continue;                   // an orphan we inherited
    if (!WIFEXITED(status) && !WIFSIGNALED(status)) continue;  // stopped, not ended
    auto& process = *found;
    process.reaped = true;
    process.drain_until = now_millis() + kDrainMillis;
    process.exit.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    process.exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    process.exit.cpu_usec = static_cast<std::uint64_t>((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 +
                                                       usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    struct statfs fs{};
    if (::statfs("/workspace", &fs) == 0) {
      process.exit.disk_free_bytes = static_cast<std::uint64_t>(fs.f_bavail) * static_cast<std::uint64_t>(fs.f_bsize);
      process.exit.disk_free_inodes = static_cast<std::uint64_t>(fs.f_ffree);
    }
    close_input(process);
  }
}

// The end of a process is its exit, not the end of its pipes, which children it left behind may hold open for ever.
// What was in the pipes at its exit is delivered, and what follows within a moment; then the exit is told and the rest
// is read into nothing.
void Init::settle(Process& process) {
  if (process.told || !process.reaped || process.report >= 0) return;
  const auto drained = [&](const Stream& stream) {
    return !stream.is_open() || (stream.wants_input() && now_millis() >= process.drain_until);
  };
  if (!drained(process.out) || !drained(process.err) || !process.out.all_sent() || !process.err.all_sent()) return;
  process.exit.out_bytes = process.out.total();
  process.exit.err_bytes = process.err.total();
  wire::append_frame(outbox_, wire::FrameType::exited, process.id, wire::encode(process.exit));
  process.told = true;
  ending_ = ending_ || process.after_exit == wire::AfterExit::end_sandbox;
  process.out.ignore_from_now();
  process.err.ignore_from_now();
}

void Init::flush() {
  while (outbox_sent_ < outbox_.size()) {
    const auto n =
        ::send(kControl, outbox_.data() + outbox_sent_, outbox_.size() - outbox_sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      if (errno != EAGAIN) connected_ = false;
      break;
    }
    outbox_sent_ += static_cast<std::size_t>(n);
  }
  if (outbox_sent_ == outbox_.size() || outbox_sent_ > kOutboxRoom) {
    outbox_.erase(0, outbox_sent_);
    outbox_sent_ = 0;
  }
}

int Init::poll_timeout() const {
  std::int64_t wait = -1;
  for (const auto& process : processes_) {
    if (!process.reaped || process.told) continue;
    // What waits for the front to read waits for that alone; anything else is told at its time, at once if that has
    // come.
    const bool blocked = !process.out.all_sent() || !process.err.all_sent() ||
                         (process.out.is_open() && !process.out.wants_input()) ||
                         (process.err.is_open() && !process.err.wants_input());
    if (blocked) continue;
    const auto left = std::max<std::int64_t>(0, process.drain_until - now_millis());
    wait = wait < 0 ? left : std::min(wait, left);
  }
  return static_cast<int>(wait);
}

int Init::run() {
  // Nobody inside may look into this process, also not through /proc, although the uid is the same.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &children, nullptr);
  const int signals = ::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) return 1;
  ::signal(SIGPIPE, SIG_IGN);
  ::fcntl(kControl, F_SETFD, FD_CLOEXEC);

  wire::append_frame(outbox_, wire::FrameType::ready, 0, {});
  std::vector<pollfd> polls;
  while (connected_) {
    flush();
    if (ending_ && outbox_.empty()) return 0;
    polls.clear();
    const bool crowded = outbox_.size() - outbox_sent_ >= kOutboxRoom;
    polls.push_back({.fd = kControl,
                     .events = static_cast<short>(POLLIN | (outbox_sent_ < outbox_.size() ? POLLOUT : 0)),
                     .revents = 0});
    polls.push_back({.fd = signals, .events = POLLIN, .revents = 0});
    for (const auto& process : processes_) {
      if (process.report >= 0) polls.push_back({.fd = process.report, .events = POLLIN, .revents = 0});
      if (process.input >= 0 && !process.pending_input.empty())
        polls.push_back({.fd = process.input, .events = POLLOUT, .revents = 0});
      if (!crowded && process.out.wants_input())
        polls.push_back({.fd = process.out.fd(), .events = POLLIN, .revents = 0});
      if (!crowded && process.err.wants_input())
        polls.push_back({.fd = process.err.fd(), .events = POLLIN, .revents = 0});
    }
    if (::poll(polls.data(), polls.size(), poll_timeout()) < 0 && errno != EINTR) return 1;
    if (polls[1].revents != 0) {
      // One at a time: whoever sends us SIGCHLD in a loop must not keep us here.
      signalfd_siginfo info;
      [[maybe_unused]] const auto n = ::read(signals, &info, sizeof info);
      reap();
    }
    if (polls[0].revents != 0) take_frames();
    for (auto& process : processes_) {
      if (process.report >= 0) read_report(process);
      feed_input(process);
      pump(process, process.out, wire::Stream::out);
      pump(process, process.err, wire::Stream::err);
      settle(process);
    }
    std::erase_if(processes_,
                  [](const Process& p) { return p.told && p.reaped && !p.out.is_open() && !p.err.is_open(); });
  }
  return 0;
}

}  // namespace
}  // namespace cove::init

int main() {
  return cove::init::Init().run();
}
