#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "async/signal.hpp"
#include "base/output_end.hpp"
#include "guest/outcome.hpp"
#include "journal/entry.hpp"

namespace cove::sandbox {

using guest::Reason;

// One event of an execution. `type`: first queued, then started when it leaves the queue; stdout, stderr,
// display, update_display, result, error, clear_output, input_request, comm_open, comm_msg, comm_close; then one `end`.
struct ExecutionEvent {
  std::uint64_t sequence = 0;
  std::string type;
  boost::json::object content;
  std::size_t bytes = 0;  // about what it takes of our memory
};

struct ExecutionEnd {
  // ok, error: reported by the interpreter. aborted: it never ran.
  enum class Status : std::uint8_t { ok, error, aborted };
  Status status = Status::aborted;
  Reason reason = Reason::exited;  // exited: the cell came to its end, well or not
  std::chrono::milliseconds wall{0};
  boost::json::object reply;    // the interpreter's own
  std::string note;             // for people, when something other than the code ended it
  std::uint64_t oom_kills = 0;  // processes that the kernel killed for memory while it ran
  // Of the interpreter, when it ended with this.
  std::optional<int> exit_status = {};
  int signal = 0;
};
std::string_view name_of(ExecutionEnd::Status status);

// How long events are held: within the limits, for readers that come later; or until they are taken, and then nothing
// is discarded: the interpreter waits while too much has not been taken.
enum class Retention : std::uint8_t { within_limits, until_taken };

struct ExecutionLimits {
  std::uint64_t output_bytes = 1U << 20;    // kept of stdout, and of stderr
  std::uint64_t display_bytes = 16U << 20;  // kept of everything else
  Retention retention = Retention::within_limits;
};

// What was discarded over a limit.
struct Truncated {
  std::uint64_t stdout_bytes = 0;
  std::uint64_t stderr_bytes = 0;
  std::uint64_t displays = 0;
};

// What to execute.
struct ExecutionOrder {
  std::string op = "execute";
  boost::json::object content = {};
  std::optional<std::chrono::milliseconds> timeout = {};
  std::chrono::milliseconds grace{2000};       // to end when it is interrupted
  std::shared_ptr<journal::Entry> entry = {};  // of the journal, ended with the execution
};

// Sees what an execution shows as it comes, also what is over its limits.
class ExecutionWatcher {
 public:
  virtual ~ExecutionWatcher() = default;
  // Of stdout or stderr; UTF-8.
  virtual void on_text(std::string_view stream, std::string_view text) = 0;
  // Every other event.
  virtual void on_event(const ExecutionEvent& event) = 0;
};

// One execution in a kernel, or one question to it: events numbered from 1 without gaps, then one end. Holds no more
// than its limits, so readers may be slow, and any number of them may start at any event.
class Execution {
 public:
  enum class State : std::uint8_t { queued, running, ended };

  Execution(boost::asio::any_io_executor executor, std::uint64_t id, ExecutionLimits limits, ExecutionOrder order = {});

  [[nodiscard]] std::uint64_t id() const { return id_; }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] const std::deque<ExecutionEvent>& events() const { return events_; }
  // A reader has seen the events up to this one, so they no longer change. Unread text is merged into one event.
  void mark_read(std::uint64_t sequence) { read_ = std::max(read_, sequence); }
  // The events that were not taken before. For the one reader of an execution with Retention::until_taken.
  [[nodiscard]] std::deque<ExecutionEvent> take_events();
  // So much has not been taken that the interpreter must wait.
  [[nodiscard]] bool full() const;
  [[nodiscard]] bool held_until_taken() const { return limits_.retention == Retention::until_taken; }
  // The interpreter's own count of executions; nullopt until it has told it.
  [[nodiscard]] std::optional<std::int64_t> count() const { return count_; }
  [[nodiscard]] const std::optional<ExecutionEnd>& end() const { return end_; }
  [[nodiscard]] const Truncated& truncated() const { return truncated_; }
  [[nodiscard]] std::size_t held_bytes() const { return held_; }
  [[nodiscard]] async::Signal& changed() { return changed_; }
  // Borrowed, until watch(nullptr).
  void watch(ExecutionWatcher* watcher) { watcher_ = watcher; }
  [[nodiscard]] bool waits_for_input() const { return waits_for_input_; }

  // --- For the kernel. `text` is UTF-8; `bytes` is about what the content takes. ---
  [[nodiscard]] const ExecutionOrder& order() const { return order_; }
  // The execution has started.
  void begin();
  void set_count(std::int64_t count);
  // Out of order(), once.
  [[nodiscard]] boost::json::object take_content() { return std::exchange(order_.content, {}); }
  void add_text(std::string_view stream, std::string_view text);
  // From a pipe: arbitrary bytes, split anywhere.
  void add_bytes(std::string_view stream, std::string_view bytes);
  void add(std::string type, boost::json::object content, std::size_t bytes);
  // A display was too large to receive; `head` is its beginning, `most` how large it may have been.
  void add_dropped_display(std::string_view head, std::size_t most);
  void on_input_answered() { waits_for_input_ = false; }
  void finish(ExecutionEnd end, std::size_t reply_bytes = 0);

 private:
  void name_picture(std::string_view mime, std::string_view size, std::uint64_t most);
  void add_question(boost::json::object content, std::size_t bytes);
  void push(std::string type, boost::json::object content, std::size_t bytes);
  void add_end(std::string_view stream);

  std::uint64_t id_;
  ExecutionLimits limits_;
  async::Signal changed_;
  ExecutionWatcher* watcher_ = nullptr;
  State state_ = State::queued;
  std::chrono::steady_clock::time_point began_;
  std::deque<ExecutionEvent> events_;
  std::uint64_t next_ = 1;  // the number of the next event
  std::uint64_t read_ = 0;
  std::size_t held_ = 0;
  std::string partial_out_;  // the beginning of a character
  std::string partial_err_;
  std::optional<OutputEnd> end_out_;  // once the beginning of the stream is full
  std::optional<OutputEnd> end_err_;
  std::uint64_t kept_out_ = 0;
  std::uint64_t kept_err_ = 0;
  std::uint64_t kept_display_ = 0;
  std::size_t pictures_named_ = 0;
  Truncated truncated_;
  bool waits_for_input_ = false;
  std::optional<std::int64_t> count_;
  std::optional<ExecutionEnd> end_;
  ExecutionOrder order_;
};

}  // namespace cove::sandbox
