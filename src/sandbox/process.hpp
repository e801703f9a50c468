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
#include <string_view>
#include <utility>
#include <vector>

#include "async/signal.hpp"
#include "guest/init_link.hpp"
#include "guest/limit_message.hpp"
#include "sandbox/process_request.hpp"
#include "sandbox/sandbox_record.hpp"
#include "store/process_table.hpp"
#include "wire/init_messages.hpp"

namespace cove::sandbox {

class ProcessTable;
class Reader;

struct Event {
  enum class Kind : std::uint8_t { started, out, err, channel, end };
  std::uint64_t sequence = 0;
  Kind kind = Kind::started;
  std::string bytes;  // of out and err; of channel one record
};

// Events that were dropped before a reader came to them, by number.
struct EventGap {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

struct EventBatch {
  std::optional<EventGap> lost;
  std::vector<Event> events;
  bool over = false;  // the end was among them, or had been read before
};

// One command in a sandbox: numbered events, then one end. Readers keep it alive, even after the sandbox.
class Process : public std::enable_shared_from_this<Process> {
 public:
  Process(boost::asio::any_io_executor executor, ProcessTable& table, std::uint32_t number, ProcessRequest request);

  [[nodiscard]] std::uint32_t number() const { return number_; }
  [[nodiscard]] const ProcessRequest& request() const { return request_; }
  [[nodiscard]] std::int64_t started_unix_ms() const { return started_unix_ms_; }
  [[nodiscard]] std::chrono::milliseconds age() const;
  // Known as soon as it is over; after a restart that may be before its last events have come again.
  [[nodiscard]] const std::optional<ProcessEnd>& end() const { return end_ ? end_ : stored_end_; }
  [[nodiscard]] std::uint64_t first_sequence() const { return events_.empty() ? next_ : events_.front().sequence; }
  [[nodiscard]] std::uint64_t last_sequence() const { return next_ - 1; }
  [[nodiscard]] const std::deque<Event>& events() const { return events_; }
  // Notified of every event, of room for input, and when it starts or fails to.
  [[nodiscard]] async::Signal& changed() { return changed_; }
  // Everything one stream wrote that is still held.
  [[nodiscard]] std::string text_of(Event::Kind kind) const;

  // Ends it and all it started; the end comes as an event. The first reason counts.
  void stop(Reason reason);
  // Errc::conflict when it has ended, or the sandbox takes no more commands because it is paused or starved.
  Result<> signal(int number);
  Result<> resize(std::uint16_t rows, std::uint16_t columns);
  // Returns when the process has taken the bytes. Errc::conflict when it takes no input, or ended before it took all.
  // `abandoned` is polled: whether nobody waits any more.
  async::Task<Result<>> write_input(std::string bytes, std::function<bool()> abandoned = {});
  Result<> end_input();
  // The same without waiting: Errc::over_limit when the process has not taken what it was sent before.
  Result<> offer_input(std::string_view bytes);
  // Sends a message over its channel (sandbox/channel.hpp) as soon as it takes it; to a process of the server before
  // us, as soon as init has reported it. Errc::conflict when it has ended.
  Result<> send(std::string_view message);
  // Of such messages, those that it has not taken.
  [[nodiscard]] std::size_t untaken_bytes() const;
  // OOM kills and refused forks in the sandbox until now are not this process's.
  void rebase_counters();
  // Since then, as far as the keeper has reported.
  [[nodiscard]] std::uint64_t oom_kills() const;
  [[nodiscard]] guest::RunLimits limits() const;
  // Ends it with Reason::timeout if it runs longer than this from now.
  void limit_time(std::chrono::milliseconds left);

  // --- For the parts of its sandbox: how it begins, what init sends of it, how it ends. ---

  enum class Phase : std::uint8_t { starting, running, failed };
  [[nodiscard]] Phase phase() const { return phase_; }
  // Why it did not start.
  [[nodiscard]] const std::optional<wire::SpawnFailed>& failure() const { return failure_; }
  // Hands over the request's callback and drops it: the caller that waits may hold the process, which must not hold
  // the caller in turn.
  [[nodiscard]] std::function<bool()> take_abandoned() { return std::exchange(request_.abandoned, {}); }
  // A waiting interpreter gets its request.
  void assign(ProcessRequest request);
  // Takes the times, and the end if it has one, from the store.
  void restore(const store::ProcessRow& row);

  // Any frame but `known`.
  void receive(const wire::Frame& frame);
  // Init reports a process that the server before us started.
  void on_inherited(const wire::Known& known);
  // Init reports a process of ours after the connection broke.
  void on_reconnected(const wire::Known& known);
  void on_disconnected();
  // Readers that stopped reading no longer hold the producer back.
  void on_tick();
  // The oldest event goes. There is one.
  void drop_oldest();
  // Bytes of events that count against the sandbox's share of memory.
  [[nodiscard]] std::size_t shared_bytes() const { return shares_memory() ? held_ : 0; }
  // There is more than its newest event to drop.
  [[nodiscard]] bool droppable() const { return shares_memory() && events_.size() > 1; }

  // The ways to end (process_end.cpp). The first end counts.
  // Its last event is there.
  [[nodiscard]] bool finished() const { return end_.has_value(); }
  using Inspect = std::function<async::Task<Result<wire::KeeperReply>>()>;  // reads the sandbox's counters
  // Judges an exit that init reported, and records it.
  async::Task<> conclude(Inspect inspect);
  // It never became its program: described in the words and the status of a shell.
  void fail_to_start(const wire::SpawnFailed& failure, const std::string& name);
  // It was not started when its time was over, or its client left.
  void give_up_start(Reason reason);
  // It is unknown to init, or forgotten while it ran.
  void cancel(Reason reason);
  // Its sandbox is gone.
  void on_sandbox_gone();
  // After a stop(): the process tree has a moment to die, then the whole sandbox is killed. A second call starts over.
  void allow_grace();
  [[nodiscard]] bool stopping() const { return stop_reason_ && !end_; }
  // Forgets it at its end; ends it after this time.
  void release(std::chrono::milliseconds grace);
  // The sandbox no longer knows it.
  void detach() { table_ = nullptr; }
  [[nodiscard]] bool attached() const { return table_ != nullptr; }

  // --- For Reader. ---
  // Lets the producer go on, unless a reader lags far behind.
  void acknowledge();
  void add_reader(const Reader& reader) { readers_.insert(&reader); }
  void remove_reader(const Reader& reader);
  // Events from number `next` on, which moves behind them; about `bytes` at most.
  EventBatch read(std::uint64_t& next, std::size_t bytes);

 private:
  // Null when nobody can be sent to: the sandbox is gone, or has been paused since before we came.
  [[nodiscard]] guest::InitLink* link() const;
  void flush() const;
  void on_started();
  void on_output(const wire::Output& output);
  void queue_acknowledgements();
  void send_channel_records();
  void finish(ProcessEnd end);
  void name_entry() const;
  void push(Event event);
  [[nodiscard]] Result<> check_commands() const;
  void arm(std::chrono::milliseconds left);
  [[nodiscard]] bool producer_waits() const;
  [[nodiscard]] bool shares_memory() const { return request_.delivery == Delivery::newest && !request_.whole; }

  ProcessTable* table_;  // null once its sandbox is gone, or has forgotten it
  std::uint32_t number_;
  ProcessRequest request_;
  async::Signal changed_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer grace_;
  Phase phase_ = Phase::starting;
  std::optional<wire::SpawnFailed> failure_;
  std::int64_t started_unix_ms_ = 0;
  std::chrono::steady_clock::time_point started_at_;
  ResourceCounters counters_before_;
  std::optional<Reason> stop_reason_;
  bool released_ = false;

  std::deque<Event> events_;
  std::size_t held_ = 0;
  std::uint64_t next_ = 1;
  std::array<std::uint64_t, std::size(wire::kStreams)> received_{};      // offsets
  std::array<std::uint64_t, std::size(wire::kStreams)> acknowledged_{};  // of them, to init
  std::set<const Reader*> readers_;

  std::uint64_t input_sent_ = 0;
  std::uint64_t input_taken_ = 0;
  bool input_open_ = false;
  std::deque<std::string> records_;  // for its channel, not sent yet
  std::size_t records_bytes_ = 0;
  std::uint64_t channel_sent_ = 0;
  std::uint64_t channel_taken_ = 0;
  std::optional<wire::Exited> exited_;
  std::optional<ProcessEnd> stored_end_;  // as the server before us judged it
  std::optional<ProcessEnd> end_;
};

// Gives a process all of its input and then the end. What it does not take is not an error.
async::Task<> feed(std::shared_ptr<Process> process, std::string input);

}  // namespace cove::sandbox
