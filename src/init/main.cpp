#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "init/child.hpp"
#include "init/discard_throttle.hpp"
#include "init/front.hpp"
#include "init/mass_kill.hpp"
#include "init/process.hpp"
#include "init/watch.hpp"
#include "wire/init_messages.hpp"

namespace cove::init {
namespace {

constexpr int kControl = 3;
constexpr std::size_t kReadChunk = 64U << 10;
constexpr std::size_t kMaxOutbox = 512U << 10;  // no more output is framed while this much waits for the front
constexpr std::size_t kHistory = 1U << 20;      // of a process's output, for a front that comes back
constexpr int kMaxReapsPerRound = 256;
constexpr std::int64_t kAcceptPause = 100;  // milliseconds
constexpr std::int64_t kMaxWait = 3'600'000;
constexpr std::uint64_t kMaxLease = 1ULL << 42;  // a hundred years
constexpr std::int64_t kMinAlone = 15'000;       // for a server that is started again, whatever the lease

class Init {
 public:
  int run();

 private:
  void describe_processes();
  void handle(const wire::Frame& frame);
  void spawn(std::uint32_t id, const wire::Spawn& request);
  void adopt(std::uint32_t id, const wire::Handover& handover);
  void fail_spawn(std::uint32_t id, ChildReport failure);
  void read_report(Process& process);
  void send_events(Process& process);
  void reap();
  Process* find(std::uint32_t id);
  bool prepare();
  void watch_descriptors();
  void watch_streams(const Process& process);
  void read_front();
  void serve(Process& process);
  [[nodiscard]] int poll_timeout() const;
  // When a sandbox without a front ends by itself; 0: it has one, or it never ends.
  [[nodiscard]] std::int64_t ends_at() const {
    return alone_since_ == 0 || lease_until_ == 0 ? 0 : std::max(lease_until_, alone_since_ + kMinAlone);
  }

  Front front_ = Front(kControl);
  Watch watch_;
  int signals_ = -1;
  std::vector<Process> processes_;  // grows only while frames are read, when nobody holds a reference
  bool ending_ = false;             // exit once everything has been sent
  bool reap_again_ = false;         // more may have ended than one round reaps
  DiscardThrottle throttle_;
  bool holding_back_ = false;  // a stream waits for the throttle
  std::int64_t accept_again_ = 0;
  MassKill mass_kill_;
  // By the clock that also counts sleep; 0: none.
  std::int64_t lease_until_ = 0;
  std::int64_t alone_since_ = 0;
  std::vector<char> scratch_ = std::vector<char>(kReadChunk);
};

Process* Init::find(std::uint32_t id) {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const auto& p) { return p.id == id && !p.forgotten && !p.failed; });
  return found == processes_.end() ? nullptr : &*found;
}

// A new front is first told which processes there are; then it asks for what it wants.
void Init::describe_processes() {
  front_.send(wire::FrameType::ready, 0, {});
  for (auto& process : processes_) {
    process.wanted = false;
    process.end_sent = false;
    if (process.forgotten || process.failed) continue;
    front_.send(wire::FrameType::known, process.id,
                wire::encode(wire::Known{.state = process.state(),
                                         .first_sequence = process.log.first_sequence(),
                                         .next_sequence = process.log.next_sequence(),
                                         .input_received = process.input_taken + process.pending_input.size(),
                                         .channel_received = process.channel_received()}));
  }
  front_.send(wire::FrameType::synced, 0, {});
}

void Init::fail_spawn(std::uint32_t id, ChildReport failure) {
  front_.send(wire::FrameType::spawn_failed, id,
              wire::encode(wire::SpawnFailed{.stage = failure.stage, .sys_errno = failure.sys_errno}));
}

void Init::spawn(std::uint32_t id, const wire::Spawn& request) {
  ChildReport failure;
  const auto spawned = start_child(request, failure);
  if (spawned.pid < 0) {
    fail_spawn(id, failure);
    return;
  }
  processes_.emplace_back(id, request, spawned, front_.may_come_back() ? kHistory : 0);
}

void Init::adopt(std::uint32_t id, const wire::Handover& handover) {
  int ends[wire::kHandoverFds];
  if (!front_.take_descriptors(ends, wire::kHandoverFds)) {
    fail_spawn(id, {.stage = wire::SpawnStage::fork, .sys_errno = EBADF});
    return;
  }
  for (const int fd : ends) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  const Spawned born{.pid = handover.pid, .input = ends[0], .output = ends[1], .error = ends[2], .channel = ends[3]};
  processes_.emplace_back(id, handover, born, front_.may_come_back() ? kHistory : 0);
  front_.send(wire::FrameType::started, id, wire::encode_number(static_cast<std::uint64_t>(handover.pid)));
}

void Init::handle(const wire::Frame& frame) {
  if (frame.type == wire::FrameType::kill_everything) {
    mass_kill_.start();
    return;
  }
  if (frame.type == wire::FrameType::lease) {
    if (const auto millis = wire::decode_number(frame.payload))
      lease_until_ = *millis == 0 ? 0 : boot_millis() + static_cast<std::int64_t>(std::min(*millis, kMaxLease));
    return;
  }
  if (frame.type == wire::FrameType::spawn) {
    const auto request = wire::decode_spawn(frame.payload);
    if (!request || frame.process == 0 || find(frame.process) != nullptr)
      fail_spawn(frame.process, {.stage = wire::SpawnStage::fork, .sys_errno = EINVAL});
    else
      spawn(frame.process, *request);
    return;
  }
  if (frame.type == wire::FrameType::handover) {
    const auto handover = wire::decode_handover(frame.payload);
    if (!handover || frame.process == 0 || find(frame.process) != nullptr)
      fail_spawn(frame.process, {.stage = wire::SpawnStage::fork, .sys_errno = EINVAL});
    else
      adopt(frame.process, *handover);
    return;
  }
  auto* process = find(frame.process);
  if (process == nullptr) return;  // it ended while this was on its way
  switch (frame.type) {
    case wire::FrameType::input:
      if (process->input >= 0 && !process->input_ends) process->pending_input.append(frame.payload);
      process->input_came = true;
      break;
    case wire::FrameType::input_end:
      process->input_ends = true;
      break;
    case wire::FrameType::channel_record:
      if (process->log.is_open(wire::Stream::channel)) process->pending_records.emplace_back(frame.payload);
      process->record_came = true;
      break;
    case wire::FrameType::limit_output:
      if (const auto limit = wire::decode_output_limit(frame.payload)) process->log.set_limit(*limit);
      break;
    case wire::FrameType::acknowledge:
      if (const auto ack = wire::decode_acknowledge(frame.payload)) process->log.acknowledge(ack->stream, ack->offset);
      break;
    case wire::FrameType::signal:
      // To the process's own group, as a terminal would; its pid is not reused before it has been reaped.
      if (const auto number = wire::decode_number(frame.payload);
          number && *number < 65 && !process->is_reaped && process->pid > 1) {
        ::kill(-process->pid, static_cast<int>(*number));
      }
      break;
    case wire::FrameType::resize:
      if (const auto size = wire::decode_number(frame.payload))
        process->resize(static_cast<std::uint16_t>(*size >> 16), static_cast<std::uint16_t>(*size & 0xffff));
      break;
    case wire::FrameType::kill_tree:
      if (process->kill_rounds == 0) process->kill_rounds = 1;
      process->kill_round();
      break;
    case wire::FrameType::replay:
      if (const auto from = wire::decode_number(frame.payload)) process->log.rewind(*from);
      process->wanted = true;
      break;
    case wire::FrameType::forget:
      process->forgotten = true;
      process->log.finish();
      break;
    default:
      break;
  }
}

void Init::read_report(Process& process) {
  ChildReport failure;
  const auto n = ::read(process.report, &failure, sizeof failure);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  ::close(process.report);
  process.report = -1;
  process.read_supervisor();
  if (n == static_cast<ssize_t>(sizeof failure)) {
    fail_spawn(process.id, failure);
    process.failed = true;
    for (const auto stream : wire::kStreams) process.log.close(stream);
    process.close_input();
    return;
  }
  front_.send(wire::FrameType::started, process.id, wire::encode_number(static_cast<std::uint64_t>(process.pid)));
}

// Output as far as the outbox has space, then the end.
void Init::send_events(Process& process) {
  if (!process.wanted || process.failed || process.forgotten || process.report >= 0 || !front_.connected()) return;
  while (front_.waiting() < kMaxOutbox) {
    const auto output = process.log.unsent();
    if (!output) break;
    front_.send(wire::FrameType::output, process.id, wire::encode(*output));
    process.log.mark_sent();
  }
  if (!process.ended || process.end_sent || !process.log.all_sent()) return;
  front_.send(wire::FrameType::exited, process.id, wire::encode(process.exit));
  process.end_sent = true;
  ending_ = ending_ || process.after_exit == wire::AfterExit::end_sandbox;
  // A front that never comes back will not ask again.
  if (!front_.may_come_back()) process.forgotten = true;
}

// A bounded number a round: a program that starts short-lived processes must not keep us here.
void Init::reap() {
  reap_again_ = true;
  for (int reaped = 0; reaped < kMaxReapsPerRound; ++reaped) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &usage);
    if (pid <= 0) {
      reap_again_ = false;
      return;
    }
    if (!WIFEXITED(status) && !WIFSIGNALED(status)) continue;  // stopped, not ended
    for (auto& process : processes_) {
      if (process.supervisor == pid) process.supervisor_gone();
      if (process.pid == pid && !process.is_reaped) process.reaped(status, cpu_usec(usage));
    }
  }
}

void Init::serve(Process& process) {
  if (watch_.ready(process.report)) read_report(process);
  if (watch_.ready(process.status)) process.read_supervisor();
  process.kill_round();
  if ((process.input_came || process.input_ends || watch_.ready(process.input)) && process.feed_input())
    front_.send(wire::FrameType::input_room, process.id, wire::encode_number(process.input_taken));
  if ((process.record_came || watch_.ready(process.log.fd(wire::Stream::channel))) && process.feed_channel())
    front_.send(wire::FrameType::channel_room, process.id, wire::encode_number(process.channel_taken));
  const auto discarded_before = process.log.discarded();
  if (process.pump(watch_, scratch_.data(), scratch_.size())) front_.send(wire::FrameType::flood, process.id, {});
  throttle_.count(process.log.discarded() - discarded_before);
  process.settle();
  send_events(process);
}

void Init::watch_streams(const Process& process) {
  const bool crowded = front_.waiting() >= kMaxOutbox;
  const bool throttled = now_millis() < throttle_.closed_until() && !process.draining();
  for (const auto stream : wire::kStreams) {
    const bool record_waits = stream == wire::Stream::channel && !process.pending_records.empty();
    const bool held_back = throttled && process.log.discards(stream);
    const bool wanted = !crowded && process.log.wants_input(stream);
    holding_back_ = holding_back_ || (wanted && held_back);
    const int events = (wanted && !held_back ? POLLIN : 0) | (record_waits ? POLLOUT : 0);
    if (events != 0) watch_.add(process.log.fd(stream), events);
  }
}

// Milliseconds until the next round is due; -1: not before a descriptor is ready.
int Init::poll_timeout() const {
  if (reap_again_) return 0;
  std::int64_t wait = -1;
  const auto within = [&](std::int64_t millis) {
    const auto at_least = std::max<std::int64_t>(0, millis);
    wait = wait < 0 ? at_least : std::min(wait, at_least);
  };
  for (const auto& process : processes_) {
    if (const auto due = process.millis_until_due(); due >= 0) within(due);
  }
  if (mass_kill_.was_pending()) within(MassKill::kPollMillis);
  if (holding_back_) within(throttle_.closed_until() - now_millis());
  if (now_millis() < accept_again_) within(accept_again_ - now_millis());
  if (ends_at() > 0) within(ends_at() - boot_millis());
  return static_cast<int>(std::min<std::int64_t>(wait, kMaxWait));
}

void Init::watch_descriptors() {
  watch_.clear();
  watch_.add(signals_, POLLIN);
  if (now_millis() >= accept_again_) watch_.add(front_.listener(), POLLIN);
  const int front_events = (mass_kill_.was_pending() ? 0 : POLLIN) | (front_.waiting() > 0 ? POLLOUT : 0);
  if (front_events != 0) watch_.add(front_.fd(), front_events);
  holding_back_ = false;
  for (const auto& process : processes_) {
    watch_.add(process.report, POLLIN);
    watch_.add(process.status, POLLIN);
    if (!process.pending_input.empty()) watch_.add(process.input, POLLOUT);
    watch_streams(process);
  }
}

void Init::read_front() {
  if (watch_.ready(front_.listener())) {
    if (front_.accept_newest())
      describe_processes();
    else
      accept_again_ = now_millis() + kAcceptPause;  // for want of a descriptor: it would be reported again at once
  }
  if (mass_kill_.pending()) return;
  // One read a round: a front that never stops sending must not starve the processes.
  if (watch_.ready(front_.fd())) front_.read_some(scratch_.data(), scratch_.size());
  while (!mass_kill_.pending()) {
    const auto frame = front_.next();
    if (!frame) break;
    handle(*frame);
  }
  front_.check();
}

bool Init::prepare() {
  // Nobody inside may look into this process, also not through /proc, although the uid is the same.
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  raise_descriptor_limit();
  leave_cores_to_programs();
  sigset_t children;
  ::sigemptyset(&children);
  ::sigaddset(&children, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &children, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  signals_ = ::signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  return signals_ >= 0;
}

int Init::run() {
  if (!prepare()) return 1;
  front_.send(wire::FrameType::ready, 0, {});
  while (true) {
    front_.flush();
    if (!front_.connected() && !front_.may_come_back()) return 0;
    if (ending_ && front_.waiting() == 0) return 0;
    alone_since_ = front_.connected() ? 0 : alone_since_ > 0 ? alone_since_ : boot_millis();
    if (ends_at() > 0 && boot_millis() >= ends_at()) return 0;
    watch_descriptors();
    if (!watch_.wait(poll_timeout())) return 1;
    if (watch_.ready(signals_)) {
      // One at a time: a program that sends us SIGCHLD in a loop must not keep us here.
      signalfd_siginfo info;
      [[maybe_unused]] const auto n = ::read(signals_, &info, sizeof info);
    }
    if (watch_.ready(signals_) || reap_again_) reap();
    read_front();
    for (auto& process : processes_) serve(process);
    throttle_.update(now_millis());
    std::erase_if(processes_, [](const Process& p) {
      return (p.forgotten || p.failed) && p.is_reaped && p.supervisor < 0 && !p.log.any_open();
    });
  }
}

}  // namespace
}  // namespace cove::init

int main() {
  return cove::init::Init().run();
}
