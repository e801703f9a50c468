#include "cli/run/one_shot.hpp"
#include "cli/interrupt.hpp"
#include "sys/record.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

namespace cove::cli {
namespace {

constexpr std::chrono::milliseconds kStopGrace{1000};  // for init to kill, drain and tell; then the whole sandbox goes
constexpr std::chrono::seconds kReaderGrace{5};        // for a reader of ours to take anything at all after the end
constexpr std::size_t kInputChunk = 32U << 10;
constexpr std::size_t kMaxReceived = 8U << 20;  // bytes of a channel that are kept
// A pipe that polls writable takes this much without blocking (pipe(7)): a slow reader of ours never holds up the
// clock.
constexpr std::size_t kWriteChunk = 4096;

bool is_pipe(int fd) {
  struct stat st{};
  return ::fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

// Never wait, also when another process empties or fills a shared pipe between the poll and the call.
ssize_t read_now(int fd, char* bytes, std::size_t size) {
  const iovec data{.iov_base = bytes, .iov_len = size};
  if (!is_pipe(fd)) return ::read(fd, bytes, size);
  const auto n = ::preadv2(fd, &data, 1, -1, RWF_NOWAIT);
  return n < 0 && errno == EOPNOTSUPP ? ::read(fd, bytes, size) : n;  // a FIFO with a name may not know of it
}
ssize_t write_now(int fd, char* bytes, std::size_t size) {
  const iovec data{.iov_base = bytes, .iov_len = size};
  if (!is_pipe(fd)) return ::write(fd, bytes, size);
  const auto n = ::pwritev2(fd, &data, 1, -1, RWF_NOWAIT);
  return n < 0 && errno == EOPNOTSUPP ? ::write(fd, bytes, size) : n;
}

std::string_view without_first_line(Sink& sink, std::string_view bytes) {
  if (!sink.skips_line) return bytes;
  const auto newline = bytes.find('\n');
  sink.skips_line = newline == std::string_view::npos;
  const auto skipped = sink.skips_line ? bytes.size() : newline + 1;
  sink.skipped += skipped;
  sink.delivered += skipped;
  return bytes.substr(skipped);
}

sigset_t cancel_signals() {
  return heeded_signals({SIGINT, SIGTERM, SIGHUP, SIGWINCH});
}

}  // namespace

struct OneShot::Current {
  std::uint32_t id;
  Feed& feed;
  ProcessEnd end{};
  bool done = false;
  bool input_open = true;
  std::uint64_t input_sent = 0;
  std::uint64_t input_taken = 0;
  Clock::time_point started_at = Clock::now();
  bool started = false;
  bool terminal = false;
  std::size_t records_sent = 0;  // records that were sent
  std::uint64_t channel_sent = 0;
  std::uint64_t channel_taken = 0;
  std::size_t received_bytes = 0;
};

void block_cancel_signals() {
  const auto set = cancel_signals();
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

Result<OneShot> OneShot::create(keeper::KeeperLink& keeper, const CreateOptions& options) {
  const auto set = cancel_signals();
  UniqueFd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return fail_errno(errno, "signalfd");
  COVE_TRY(auto ends, guest::InitLink::create());
  OneShot shot(keeper, std::move(ends.first), std::move(signals));
  shot.id_ = SandboxId::random();
  const wire::KeeperRequest request{
      .verb = wire::KeeperVerb::create,
      .serial = 1,
      .id = shot.id_,
      .root = options.root,
      .memory_bytes = options.limits.memory_bytes,
      .disk_bytes = options.limits.disk_bytes,
      .inodes = options.limits.inodes,
      .pids = options.limits.pids,
      .cpu_millis = options.limits.cpu_millis,
      .terminal = options.terminal,
  };
  COVE_CHECK(keeper.send(request, sys::descriptors(std::move(ends.second))));
  return shot;
}

void OneShot::stop(guest::Reason reason) {
  if (!stopped_by_us_) stopped_by_us_ = reason;
  if (std::exchange(stopping_, true)) return;
  stop_grace_ = Clock::now() + kStopGrace;
  link_.kill_everything();
}

Result<> OneShot::read_keeper() {
  while (true) {
    COVE_TRY(const auto reply, keeper_->receive());
    if (!reply) return {};
    if (reply->id != id_) continue;
    switch (reply->word) {
      case wire::KeeperWord::created:
        keeper_answered_ = true;
        uid_ = reply->host_uid;
        break;
      case wire::KeeperWord::failed:
        create_error_ = wire::error_of(*reply);
        keeper_answered_ = true;
        link_closed_ = true;
        break;
      case wire::KeeperWord::gone:
        gone_ = *reply;
        break;
      default:
        break;  // died: the link's end of file says so too. out_of_memory: the program goes on, as in a server
    }
  }
}

void OneShot::read_signals(Current* current) {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGWINCH) {
      winsize size{};
      if (current != nullptr && current->terminal && ::ioctl(0, TIOCGWINSZ, &size) == 0)
        link_.resize(current->id, size.ws_row, size.ws_col);
      continue;
    }
    cancel_signal_ = static_cast<int>(info.ssi_signo);
    stop(guest::Reason::cancelled);
  }
}

void OneShot::handle(Current& current, const wire::Frame& frame) {
  if (frame.process != current.id) return;
  switch (frame.type) {
    case wire::FrameType::started:
      current.started = true;
      current.started_at = Clock::now();
      break;
    case wire::FrameType::spawn_failed:
      current.end.not_started = wire::decode_spawn_failed(frame.payload);
      current.done = true;
      break;
    case wire::FrameType::output:
      if (const auto output = wire::decode_output(frame.payload); output && output->stream == wire::Stream::channel) {
        current.received_bytes += output->bytes.size();
        if (current.received_bytes <= kMaxReceived) current.feed.received.emplace_back(output->bytes);
        link_.acknowledge(current.id, output->stream, output->offset + output->bytes.size());
      } else if (output) {
        auto& sink = output->stream == wire::Stream::out ? current.feed.out : current.feed.err;
        (sink.fd < 0 ? sink.captured : sink.pending).append(without_first_line(sink, output->bytes));
        deliver(current, sink, output->stream);
      }
      break;
    case wire::FrameType::input_room:
      if (const auto taken = wire::decode_number(frame.payload)) current.input_taken = *taken;
      break;
    case wire::FrameType::channel_room:
      if (const auto taken = wire::decode_number(frame.payload)) current.channel_taken = *taken;
      break;
    case wire::FrameType::flood:
      stop(guest::Reason::output_limit);
      break;
    case wire::FrameType::exited:
      current.end.exited = wire::decode_exited(frame.payload);
      current.end.wall = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - current.started_at);
      current.done = true;
      break;
    default:
      break;
  }
}

// Memory takes everything at once; a descriptor takes one piece whenever it polls writable.
void OneShot::deliver(Current& current, Sink& sink, wire::Stream stream) {
  if (sink.fd < 0) {
    sink.delivered = sink.captured.size();
  } else if (!sink.pending.empty()) {
    pollfd ready{.fd = sink.fd, .events = POLLOUT, .revents = 0};
    while (!sink.pending.empty() && ::poll(&ready, 1, 0) == 1) {
      const auto n = sink.broken ? static_cast<ssize_t>(sink.pending.size())
                                 : write_now(sink.fd, sink.pending.data(), std::min(kWriteChunk, sink.pending.size()));
      if (n < 0 && (errno == EINTR || errno == EAGAIN)) break;
      if (n < 0) {
        // Nobody reads any more: as in a shell pipeline, the producer is told by ending it.
        sink.broken = true;
        if (errno == EPIPE)
          cancel_signal_ = SIGPIPE;
        else if (!output_error_)
          output_error_ = fail_errno(errno, "could not pass on the program's output").value();
        stop(guest::Reason::cancelled);
        continue;
      }
      sink.delivered += static_cast<std::uint64_t>(n);
      last_delivery_ = Clock::now();
      sink.pending.erase(0, static_cast<std::size_t>(n));
    }
  }
  // Once everything has been told to die, what is left is bounded: take it all, so that init can finish, and pass it on
  // after.
  const auto taken = sink.delivered + (stopping_ ? sink.pending.size() : 0);
  if (taken > sink.acknowledged && !current.done) link_.acknowledge(current.id, stream, taken);
  sink.acknowledged = std::max(sink.acknowledged, taken);
}

void OneShot::take_input(Current& current) {
  std::array<char, kInputChunk> chunk;
  const auto n = read_now(current.feed.input_fd, chunk.data(), chunk.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) {
    current.input_open = false;
    link_.end_input(current.id);
    return;
  }
  link_.input(current.id, {chunk.data(), static_cast<std::size_t>(n)});
  current.input_sent += static_cast<std::uint64_t>(n);
}

void OneShot::send_records(Current& current) {
  const auto& records = current.feed.records;
  while (current.started && current.records_sent < records.size() &&
         current.channel_sent - current.channel_taken + records[current.records_sent].size() <= wire::kChannelAhead) {
    current.channel_sent += records[current.records_sent].size();
    link_.channel_record(current.id, records[current.records_sent++]);
  }
}

// One wait for anything to happen, and everything that then did.
Result<> OneShot::wait_once(Current* current, Clock::time_point until) {
  if (current != nullptr) send_records(*current);
  link_.flush();
  std::array<pollfd, 6> polls{};
  std::size_t count = 0;
  const auto watch = [&](int fd, int events) {
    polls[count] = {.fd = fd, .events = static_cast<short>(events), .revents = 0};
    return count++;
  };
  const auto keeper = watch(keeper_->fd(), POLLIN);
  const auto signals = watch(signals_.get(), POLLIN);
  const auto link = watch(link_closed_ ? -1 : link_.fd(), POLLIN | (link_.wants_write() ? POLLOUT : 0));
  const bool wants_input = current != nullptr && current->started && current->input_open && !current->done &&
                           current->input_sent - current->input_taken + kInputChunk <= wire::kInputAhead;
  const auto input = watch(wants_input ? current->feed.input_fd : -1, POLLIN);
  watch(current != nullptr && !current->feed.out.pending.empty() ? current->feed.out.fd : -1, POLLOUT);
  watch(current != nullptr && !current->feed.err.pending.empty() ? current->feed.err.fd : -1, POLLOUT);

  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  const int wait =
      until == Clock::time_point::max() ? -1 : static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000));
  if (::poll(polls.data(), count, wait) < 0 && errno != EINTR) return fail_errno(errno, "poll");

  if (polls[link].revents != 0) {
    const auto state = link_.receive([&](const wire::Frame& frame) {
      if (current != nullptr) handle(*current, frame);
    });
    if (state == guest::InitLink::State::closed) link_closed_ = true;
  }
  if (polls[keeper].revents != 0) COVE_CHECK(read_keeper());
  if (polls[signals].revents != 0) read_signals(current);
  if (current != nullptr) {
    if (wants_input && polls[input].revents != 0) take_input(*current);
    deliver(*current, current->feed.out, wire::Stream::out);
    deliver(*current, current->feed.err, wire::Stream::err);
  }
  return {};
}

Result<ProcessEnd> OneShot::run(const wire::Spawn& spawn, Feed& feed,
                                std::optional<std::chrono::milliseconds> timeout) {
  stopping_ = false;  // what ended an earlier process, ended that one alone
  Current current{.id = next_process_++, .feed = feed};
  current.terminal = spawn.terminal == wire::Terminal::yes;
  link_.spawn(current.id, spawn);
  if (feed.input_fd < 0) {
    current.input_open = false;
    link_.end_input(current.id);
  }
  // A sandbox that was never made closes the link too; the keeper will say why.
  // Everything was told to die; if init cannot even say so within its grace, the sandbox goes as a whole.
  const auto given_up = [&] { return stopping_ && Clock::now() >= stop_grace_; };
  const auto over = [&] { return current.done || (link_closed_ && keeper_answered_) || given_up(); };
  while (!over() || !feed.out.pending.empty() || !feed.err.pending.empty()) {
    if (create_error_) return tl::unexpected<Error>(*create_error_);
    auto until = Clock::time_point::max();
    if (given_up() && cancel_signal_ != 0) break;  // whoever cancels does not wait for a slow reader
    if (stopping_ && over()) {
      // A slow reader still gets it all; one that does not read at all cannot hold up a run that had to end.
      until = std::max(last_delivery_, stop_grace_) + kReaderGrace;
      if (Clock::now() >= until) break;
    } else if (stopping_) {
      until = stop_grace_;
    } else if (timeout && current.started && !over()) {
      until = current.started_at + *timeout;
      if (Clock::now() >= until) {
        stop(guest::Reason::timeout);
        continue;
      }
    }
    COVE_CHECK(wait_once(&current, until));
  }
  if (create_error_) return tl::unexpected<Error>(*create_error_);
  current.end.undelivered = feed.out.pending.size() + feed.err.pending.size();
  if (!current.end.exited)
    current.end.wall = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - current.started_at);
  return current.end;
}

Result<> OneShot::order_network(UniqueFd order, UniqueFd answer) {
  while (!keeper_answered_) COVE_CHECK(wait_once(nullptr, Clock::time_point::max()));
  if (create_error_) return tl::unexpected<Error>(*create_error_);
  return keeper_->send({.verb = wire::KeeperVerb::network, .serial = 3, .id = id_},
                       sys::descriptors(std::move(order), std::move(answer)));
}

Result<wire::KeeperReply> OneShot::destroy() {
  const wire::KeeperRequest request{.verb = wire::KeeperVerb::destroy, .serial = 2, .id = id_};
  COVE_CHECK(keeper_->send(request));
  while (!gone_) {
    if (create_error_) return tl::unexpected<Error>(*create_error_);
    COVE_CHECK(wait_once(nullptr, Clock::time_point::max()));
  }
  return *gone_;
}

}  // namespace cove::cli
