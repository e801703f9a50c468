#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "guest/environment.hpp"
#include "guest/init_link.hpp"
#include "guest/outcome.hpp"
#include "jail/plan.hpp"
#include "keeper/keeper.hpp"

namespace cove::cli {

using Clock = std::chrono::steady_clock;

// Where one output stream of a process goes: to a descriptor as it comes, or into memory.
struct Sink {
  int fd = -1;           // -1: into `captured`
  std::string captured;  // never longer than the process's output limit
  std::string pending;   // for fd: not written yet; at most init's window
  std::uint64_t delivered = 0;
  std::uint64_t acknowledged = 0;
  bool broken = false;      // the reader of fd is gone
  bool skips_line = false;  // for fd: what comes before the first newline, and that, is not passed on
  std::uint64_t skipped = 0;
};

struct Feed {
  int input_fd = -1;  // -1: end of file at once
  Sink out;
  Sink err;
  // With Spawn::channel: the records sent over it, and those that came back (guest/channel.hpp).
  std::vector<std::string> records = {};
  std::vector<std::string> received = {};
};

struct ProcessEnd {
  std::optional<wire::SpawnFailed> not_started;
  std::optional<wire::Exited> exited;  // neither: the sandbox is gone
  std::chrono::microseconds wall{0};   // from its start
  std::uint64_t undelivered = 0;       // bytes of output that our own reader did not take
};

struct CreateOptions {
  jail::Limits limits;
  wire::SandboxTerminal terminal = wire::SandboxTerminal::none;
  std::uint32_t root = 0;  // wire::KeeperRequest::root
};

inline guest::Share share_of(const jail::Limits& limits) {
  return {.memory_bytes = limits.memory_bytes, .cpu_millis = limits.cpu_millis, .pids = limits.pids};
}

// One sandbox for the life of one command. Single-threaded, with a poll loop of its own; SIGINT, SIGTERM and SIGHUP
// cancel whatever runs (they must be blocked by the caller before the keeper is started).
class OneShot {
 public:
  static Result<OneShot> create(keeper::KeeperLink& keeper, const CreateOptions& options);

  // Runs a process to its end, to the deadline, or until a limit ends it. Errc when the sandbox could not be made.
  Result<ProcessEnd> run(const wire::Spawn& spawn, Feed& feed, std::optional<std::chrono::milliseconds> timeout);
  // Has the keeper change the ways out of its network (wire/network_records.hpp). Waits until the sandbox is made; the
  // answer comes over the socket.
  Result<> order_network(UniqueFd order, UniqueFd answer);
  [[nodiscard]] const SandboxId& id() const { return id_; }
  // Ends every process inside; the sandbox itself stays.
  void kill_everything() { link_.kill_everything(); }
  // Waits until nothing of the sandbox is left. What the kernel counted over its whole life.
  Result<wire::KeeperReply> destroy();

  [[nodiscard]] std::optional<guest::Reason> stopped_by_us() const { return stopped_by_us_; }
  [[nodiscard]] int cancel_signal() const { return cancel_signal_; }
  // The caller's own stdout or stderr could not be written, for another reason than that its reader left.
  [[nodiscard]] const std::optional<Error>& output_error() const { return output_error_; }
  [[nodiscard]] int uid() const { return uid_; }

 private:
  OneShot(keeper::KeeperLink& keeper, guest::InitLink link, UniqueFd signals)
      : keeper_(&keeper), link_(std::move(link)), signals_(std::move(signals)) {}
  struct Current;  // the process being run
  Result<> wait_once(Current* current, Clock::time_point until);
  Result<> read_keeper();
  void read_signals(Current* current);
  void handle(Current& current, const wire::Frame& frame);
  void take_input(Current& current);
  void send_records(Current& current);
  void deliver(Current& current, Sink& sink, wire::Stream stream);
  void stop(guest::Reason reason);

  keeper::KeeperLink* keeper_;
  guest::InitLink link_;
  UniqueFd signals_;
  SandboxId id_;
  std::uint32_t next_process_ = 1;
  std::optional<guest::Reason> stopped_by_us_;  // the first reason, for the report
  bool stopping_ = false;                       // the process being run
  std::optional<Error> output_error_;
  Clock::time_point stop_grace_;
  Clock::time_point last_delivery_;
  bool link_closed_ = false;
  bool keeper_answered_ = false;  // said whether the sandbox was made
  std::optional<Error> create_error_;
  std::optional<wire::KeeperReply> gone_;
  int cancel_signal_ = 0;
  int uid_ = -1;
};

// Blocks the signals that OneShot reads itself. To be called before the keeper is started, so that none is lost.
void block_cancel_signals();

}  // namespace cove::cli
