#pragma once

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "async/signal.hpp"
#include "sandbox/init_link.hpp"
#include "sandbox/outcome.hpp"
#include "wire/init_messages.hpp"

namespace cove::sandbox {

class Sandbox;

// Whether callers see the process: `internal` is work of ours inside the sandbox, as the file helper; a kernel's is
// seen as the kernel, an execution's as the execution.
enum class ProcessKind : std::uint8_t { exec, background, internal, kernel, execution };
enum class InputMode : std::uint8_t { none, open };
// What happens to output that nobody has read when there is too much of it: the oldest goes, or the producer waits.
enum class Delivery : std::uint8_t { newest, everything };

struct ProcessRequest {
  ProcessKind kind = ProcessKind::exec;
  std::vector<std::string> argv;
  std::string directory = "/workspace";  // absolute, or relative to /workspace
  std::vector<std::string> variables;    // "K=V", besides the sandbox's own
  bool terminal = false;
  std::uint16_t rows = 24;
  std::uint16_t columns = 80;
  std::optional<std::chrono::milliseconds> timeout;
  InputMode input = InputMode::none;
  std::uint64_t output_limit = UINT64_MAX / 4;  // bytes of each stream that are kept
  std::size_t history = std::size_t{1} << 20;   // bytes of output held for readers
  Delivery delivery = Delivery::newest;
  std::function<bool()> abandoned = {};  // while it is being started: whether anybody still waits for it
  bool channel = false;
  bool whole = false;         // nobody follows it: each stream is held as one event, for text_of() at the end
  std::string known_by = {};  // what a server after us finds it by, instead of its command
  std::vector<wire::InlineFile> files = {};  // written by the new process before it becomes its program
};

struct ProcessEnd {
  Reason reason = Reason::exited;
  int exit_status = 0;  // the program's own, or by the convention of shells
  int signal = 0;
  std::chrono::milliseconds wall{0};
  std::chrono::milliseconds cpu{0};
  std::uint64_t out_bytes = 0;
  std::uint64_t err_bytes = 0;
  std::uint32_t made = 2;  // as wire::Exited; 2 when nobody counted
  std::string note;        // for people, when something other than the program ended it
};

struct Event {
  enum class Kind : std::uint8_t { started, out, err, channel, end };
  std::uint64_t sequence = 0;
  Kind kind = Kind::started;
  std::string bytes;  // of out and err; of channel one record
};

// One command in a sandbox: numbered events, then one end. Kept alive by whoever reads it.
class Process : public std::enable_shared_from_this<Process> {
 public:
  Process(boost::asio::any_io_executor executor, Sandbox& sandbox, std::uint32_t number, ProcessRequest request);

  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] const ProcessRequest& request() const { return request_; }
  [[nodiscard]] std::int64_t started_unix_ms() const { return started_unix_ms_; }
  [[nodiscard]] std::chrono::milliseconds age() const;
  // Known as soon as it is over; after a restart that may be before its last events have come again.
  [[nodiscard]] const std::optional<ProcessEnd>& end() const { return end_ ? end_ : judged_; }
  [[nodiscard]] std::uint64_t first_sequence() const { return events_.empty() ? next_ : events_.front().sequence; }
  [[nodiscard]] std::uint64_t last_sequence() const { return next_ - 1; }
  [[nodiscard]] const std::deque<Event>& events() const { return events_; }
  // Notified of every event, of room for input, and when it starts or fails to.
  [[nodiscard]] async::Signal& changed() { return changed_; }
  // Everything one stream wrote that is still held.
  [[nodiscard]] std::string text_of(Event::Kind kind) const;

  // Ends it and all it started; the end comes as an event. The first reason counts.
  void stop(Reason reason);
  // Errc::conflict when it has ended, or the sandbox takes no more orders because it is paused or starved.
  Result<> signal(int number);
  Result<> resize(std::uint16_t rows, std::uint16_t columns);
  // Returns when the process has taken the bytes. Errc::conflict when it takes no input, or ended before it took all.
  // `abandoned` is asked from time to time whether anybody still waits.
  async::Task<Result<>> write_input(std::string bytes, std::function<bool()> abandoned = {});
  Result<> end_input();
  // A message over its channel (sandbox/channel.hpp), as soon as it takes it; one of a server before us, as soon as
  // init has told of it. Errc::conflict when it has ended.
  Result<> send(std::string_view message);
  // What was refused or killed in the sandbox until now is not its doing.
  void charge_from_now();
  // Ends it with Reason::timeout when it has not ended in this time from now.
  void limit_time(std::chrono::milliseconds left) {
    request_.timeout = left;
    arm(left);
  }
  // The same without waiting: Errc::over_limit when the process has not taken what it was sent before.
  Result<> offer_input(std::string_view bytes);

 private:
  friend class Reader;
  friend class Sandbox;
  enum class Birth : std::uint8_t { pending, running, failed };

  // Null when there is nobody to talk to: the sandbox is gone, or paused since before we came.
  [[nodiscard]] InitLink* link() const;
  void on_started();
  void on_failed(const wire::SpawnFailed& failure);
  void on_output(const wire::Output& output);
  void on_input_room(std::uint64_t taken);
  void on_channel_room(std::uint64_t taken);
  void feed_channel();
  void on_flood();
  void on_known(const wire::Known& known);
  void finish(ProcessEnd end);
  void push(Event event);
  void acknowledge();
  void drop_oldest();
  [[nodiscard]] Result<> check_orders() const;
  void allow_grace();
  void arm(std::chrono::milliseconds left);
  [[nodiscard]] bool held_back() const;

  Sandbox* sandbox_;  // null once that is gone
  std::uint32_t number_;
  ProcessRequest request_;
  async::Signal changed_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer grace_;
  Birth birth_ = Birth::pending;
  std::optional<wire::SpawnFailed> failure_;
  std::int64_t started_unix_ms_ = 0;
  std::chrono::steady_clock::time_point started_at_;
  std::uint64_t oom_kills_before_ = 0;
  std::uint64_t pids_refused_before_ = 0;
  std::optional<Reason> stopped_by_us_;
  bool released_ = false;  // to be forgotten when it ends

  std::deque<Event> events_;
  std::size_t held_ = 0;
  std::uint64_t next_ = 1;
  std::array<std::uint64_t, std::size(wire::kStreams)> received_{};      // offsets
  std::array<std::uint64_t, std::size(wire::kStreams)> acknowledged_{};  // of them, told to init
  std::set<class Reader*> readers_;

  std::uint64_t input_sent_ = 0;
  std::uint64_t input_taken_ = 0;
  bool input_open_ = false;
  std::deque<std::string> records_;  // for its channel, not sent yet
  std::uint64_t channel_sent_ = 0;
  std::uint64_t channel_taken_ = 0;
  std::optional<wire::Exited> exited_;
  std::optional<ProcessEnd> judged_;  // by the front before us
  std::optional<ProcessEnd> end_;
};

// One reader's place in a process's events. While a reader that reads lags far behind, the producer waits; one that has
// stopped reading is left behind and told what it lost.
class Reader {
 public:
  Reader(std::shared_ptr<Process> process, std::uint64_t from);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader();

  struct Gap {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
  };
  struct Batch {
    std::optional<Gap> lost;
    std::vector<Event> events;
    bool over = false;  // the end was among them, or had been read before
  };
  // What has come since the last call, about `bytes` of it at most. Empty when there is nothing new.
  Batch take(std::size_t bytes);
  [[nodiscard]] std::uint64_t next() const { return next_; }

 private:
  friend class Process;
  std::shared_ptr<Process> process_;
  std::uint64_t next_;
  std::chrono::steady_clock::time_point progress_;
};

// Gives a process all of its input and then the end. What it does not take is not an error of anybody's.
async::Task<> feed(std::shared_ptr<Process> process, std::string input);

}  // namespace cove::sandbox
