#include "init/process.hpp"

#include <dirent.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "init/tree.hpp"

namespace cove::init {
namespace {

constexpr int kReads = 4;                   // of one stream in one round
constexpr int kDrainReads = 17;             // a pipe may hold a MiB (pipe(7)), and the last read finds its end
constexpr std::int64_t kDrainMillis = 100;  // how long output may trickle in after its process ended
constexpr std::int64_t kKillMillis = 2;     // between two rounds
constexpr int kMaxKillRounds = 50;          // what outruns these is ended with everything else in the sandbox

std::uint32_t count_made() {
  DIR* workspace = ::opendir("/workspace");
  if (workspace == nullptr) return 2;  // whoever asks looks for itself
  std::uint32_t made = 0;
  while (const auto* entry = made < 2 ? ::readdir(workspace) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != wire::kProgramFile) ++made;
  }
  ::closedir(workspace);
  return made;
}

std::int64_t millis_by(clockid_t clock) {
  timespec ts{};
  ::clock_gettime(clock, &ts);
  return ts.tv_sec * 1000 + ts.tv_nsec / 1'000'000;
}

}  // namespace

std::int64_t now_millis() {
  return millis_by(CLOCK_MONOTONIC);
}

std::int64_t boot_millis() {
  return millis_by(CLOCK_BOOTTIME);
}

Process::Process(std::uint32_t process_id, const wire::Spawn& spawn, const Spawned& spawned, std::size_t history)
    : id(process_id),
      terminal(spawn.terminal),
      after_exit(spawn.after_exit),
      flood_limit(spawn.flood_limit),
      pid(spawned.status >= 0 ? -1 : spawned.pid),
      supervisor(spawned.status >= 0 ? spawned.pid : -1),
      report(spawned.report),
      status(spawned.status),
      input(spawned.input),
      log(spawn.output_limit, history) {
  log.open(wire::Stream::out, spawned.output);
  log.open(wire::Stream::err, spawned.error);
  log.open(wire::Stream::channel, spawned.channel);
}

Process::Process(std::uint32_t process_id, const wire::Handover& handover, const Spawned& born, std::size_t history)
    : Process(process_id, wire::Spawn{.output_limit = handover.output_limit}, born, history) {
  // It may be gone by now, and was nobody's then.
  if (::kill(pid, 0) != 0 && errno == ESRCH) reaped(SIGKILL, 0);
}

bool Process::pump(const Watch& watch, char* scratch, std::size_t scratch_size) {
  for (const auto stream : wire::kStreams) {
    if (!watch.ready(log.fd(stream))) continue;
    // A few reads a round, so that one flood does not starve the others. Once it has exited, as many as the largest
    // pipe may hold: everything it wrote is counted before its end is reported.
    const int max_reads = draining() ? kDrainReads : kReads;
    for (int reads = 0; reads < max_reads && log.wants_input(stream); ++reads) {
      const auto read = log.read_some(stream, scratch, scratch_size);
      if (read == OutputLog::Read::end) log.close(stream);
      if (read != OutputLog::Read::some) break;
    }
  }
  if (flood_sent || flood_limit == 0 || !log.flooded(flood_limit)) return false;
  flood_sent = true;
  return true;
}

void Process::close_input() {
  if (input >= 0) ::close(input);
  input = -1;
  pending_input.clear();
}

bool Process::feed_input() {
  const auto before = input_taken;
  input_came = false;
  while (input >= 0 && !pending_input.empty()) {
    const auto n = ::write(input, pending_input.data(), pending_input.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) {
      // Nobody will ever read it: the rest has nowhere to go. Any other error is not to look like the end of the input.
      const bool unread = errno == EPIPE || (errno == EIO && terminal == wire::Terminal::yes);
      if (!unread && pid > 1) ::kill(-pid, SIGKILL);
      close_input();
      break;
    }
    input_taken += static_cast<std::uint64_t>(n);
    pending_input.erase(0, static_cast<std::size_t>(n));
  }
  if (input_ends && pending_input.empty() && input >= 0) {
    // A terminal has no end to close: the line discipline's end-of-file character says it.
    if (terminal == wire::Terminal::yes) {
      [[maybe_unused]] const auto n = ::write(input, "\x04", 1);
      input_ends = false;
    } else {
      close_input();
    }
  }
  return input_taken != before;
}

bool Process::feed_channel() {
  record_came = false;
  const int channel = log.fd(wire::Stream::channel);
  std::size_t sent = 0;
  for (; channel >= 0 && sent < pending_records.size(); ++sent) {
    const auto& record = pending_records[sent];
    const auto n = ::send(channel, record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) break;
    // Any other failure: nobody will ever read it.
    channel_taken += record.size();
  }
  pending_records.erase(pending_records.begin(), pending_records.begin() + static_cast<std::ptrdiff_t>(sent));
  return sent > 0;
}

void Process::resize(std::uint16_t rows, std::uint16_t columns) const {
  if (terminal != wire::Terminal::yes || input < 0) return;
  const winsize window{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  ::ioctl(input, TIOCSWINSZ, &window);
}

void Process::reaped(int wait_status, std::uint64_t cpu) {
  is_reaped = true;
  drain_until = now_millis() + kDrainMillis;
  exit.exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  exit.signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  exit.cpu_usec = cpu;
  struct statfs fs{};
  if (::statfs("/workspace", &fs) == 0) {
    exit.disk_free_bytes = static_cast<std::uint64_t>(fs.f_bavail) * static_cast<std::uint64_t>(fs.f_bsize);
    exit.disk_free_inodes = static_cast<std::uint64_t>(fs.f_ffree);
  }
  exit.made = count_made();
  close_input();
}

void Process::read_supervisor() {
  while (status >= 0) {
    SupervisorMessage word;
    const auto n = ::read(status, &word, sizeof word);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n != static_cast<ssize_t>(sizeof word)) {
      ::close(status);
      status = -1;
      return;
    }
    if (word.kind == SupervisorMessage::Kind::started) pid = word.pid;
    if (word.kind == SupervisorMessage::Kind::ended && !is_reaped) reaped(word.status, word.cpu_usec);
  }
}

// Someone inside killed it, as they may. Its children are ours now: the process among them, unless it is gone already.
void Process::supervisor_gone() {
  read_supervisor();
  supervisor = -1;
  if (is_reaped || failed) return;
  orphaned = true;
  if (pid < 0 || (::kill(pid, 0) != 0 && errno == ESRCH)) reaped(SIGKILL, 0);
}

void Process::kill_round() {
  if (kill_rounds == 0) return;
  if (supervisor > 0 && pid < 0 && status >= 0) return;  // it has not begun yet: there is nothing to kill, but will be
  if (supervisor < 0 && !orphaned) {
    // Nobody stands above it: what it started is killed while it cannot start more, then it is.
    if (!is_reaped && pid > 1) {
      ::kill(pid, SIGSTOP);
      kill_below(pid);
      ::kill(pid, SIGKILL);
    }
    kill_rounds = 0;
    return;
  }
  const bool lost = orphaned || ++kill_rounds > kMaxKillRounds;
  if (lost) {
    ::kill(-1, SIGKILL);
    kill_rounds = 0;
  } else if (kill_below(supervisor) == 0) {
    kill_rounds = 0;
  }
}

void Process::settle() {
  if (ended || !is_reaped || report >= 0) return;
  const auto drained = [&](wire::Stream stream) {
    return !log.is_open(stream) || (log.wants_input(stream) && now_millis() >= drain_until);
  };
  if (!std::all_of(std::begin(wire::kStreams), std::end(wire::kStreams), drained)) return;
  exit.out_bytes = log.total(wire::Stream::out);
  exit.err_bytes = log.total(wire::Stream::err);
  ended = true;
  log.finish();
}

std::int64_t Process::millis_until_due() const {
  if (kill_rounds > 0) return kKillMillis;
  if (ended || !is_reaped) return -1;
  // A stream with a full window waits for the front alone; otherwise the end of draining is due, perhaps already.
  for (const auto stream : wire::kStreams) {
    if (log.is_open(stream) && !log.wants_input(stream)) return -1;
  }
  return std::max<std::int64_t>(0, drain_until - now_millis());
}

std::uint64_t Process::channel_received() const {
  std::uint64_t bytes = channel_taken;
  for (const auto& record : pending_records) bytes += record.size();
  return bytes;
}

wire::ProcessState Process::state() const {
  if (ended) return wire::ProcessState::ended;
  return report >= 0 ? wire::ProcessState::starting : wire::ProcessState::running;
}

}  // namespace cove::init
