#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "sandbox/execution.hpp"
#include "sandbox/kernel_language.hpp"
#include "sandbox/kernel_message.hpp"
#include "sandbox/process.hpp"
#include "sandbox/recent_executions.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::sandbox {

struct KernelOptions {
  KernelLanguage language = KernelLanguage::python;
  std::vector<std::string> variables = {};  // "K=V"
  journal::Actor actor = {};                // who asks, for the journal
};

struct ExecuteRequest {
  std::string code;
  bool silent = false;
  bool store_history = true;
  bool allow_stdin = false;
  bool colour = false;
  boost::json::object user_expressions;
  std::optional<std::chrono::milliseconds> timeout;
  ExecutionLimits limits;
  std::string file = {};      // what the code finds as its own path; "": nothing, or what the interpreter says
  journal::Actor actor = {};  // who asks, for the journal
  bool stay = false;          // `exit` in a cell does not end the kernel
  bool watch = false;  // changed modules are reloaded; `touched` of the reply says whether files may have been written
  std::chrono::milliseconds grace{2000};  // to end when it is interrupted; then the kernel is killed
  // Instead of code: comm_open, comm_msg or comm_close, whose handler is run, and the message for it.
  std::string comm = {};
  boost::json::object message = {};
};

// A stateful interpreter in a sandbox. Runs executions one after the other. Its messages are written by code nobody has
// read; how it ended comes from init and the keeper.
class Kernel : public std::enable_shared_from_this<Kernel> {
 public:
  enum class State : std::uint8_t { starting, idle, busy, dead };

  // Ready when this returns.
  static async::Task<Result<std::shared_ptr<Kernel>>> start(std::shared_ptr<Sandbox> sandbox, std::string id,
                                                            KernelOptions options,
                                                            std::shared_ptr<KernelTotals> totals);
  // One that a server before us started and that goes on.
  static std::shared_ptr<Kernel> adopt(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Process> process,
                                       std::shared_ptr<KernelTotals> totals);

  [[nodiscard]] const std::string& id() const { return id_; }
  [[nodiscard]] const std::shared_ptr<Sandbox>& sandbox() const { return sandbox_; }
  [[nodiscard]] KernelLanguage language() const { return options_.language; }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] std::int64_t started_unix_ms() const { return process_->started_unix_ms(); }
  [[nodiscard]] std::uint64_t executions() const { return executions_; }
  [[nodiscard]] std::size_t queued() const { return queue_.size(); }
  // Of its interpreter, as that reports it: digits, letters, dots. "" when it is not known.
  [[nodiscard]] const std::string& version() const { return version_; }
  // Differs after each restart.
  [[nodiscard]] std::uint32_t process_number() const { return process_->number(); }
  // Starts a new interpreter at this moment.
  [[nodiscard]] bool restarting() const { return restarting_; }
  [[nodiscard]] const std::vector<std::string>& variables() const { return options_.variables; }
  // Forked from one that had everything loaded.
  [[nodiscard]] bool warm() const;
  // How it died, for people; only of one that is dead.
  [[nodiscard]] std::string how_it_died() const;
  [[nodiscard]] async::Signal& changed() { return changed_; }

  // Queued, and run in turn. Errc::conflict when the kernel is dead, Errc::quota when too many wait.
  Result<std::shared_ptr<Execution>> execute(ExecuteRequest request);
  // A question of the runtime's (complete, inspect, is_complete, history, variables, comm_info), in its turn; ended and
  // answered when this returns. `abandoned` is asked from time to time whether anybody still waits.
  async::Task<Result<std::shared_ptr<Execution>>> ask(std::string op, boost::json::object content,
                                                      std::function<bool()> abandoned = {});
  // Those that run, wait, or ended a short while ago.
  [[nodiscard]] std::shared_ptr<Execution> find(std::uint64_t id) const;

  // KeyboardInterrupt in the running cell; those that wait are run.
  Result<> interrupt(const journal::Actor& actor = {});
  // Takes a waiting one out of the queue, or interrupts the running one, and kills the kernel if that does not help.
  void cancel(const std::shared_ptr<Execution>& execution, Reason reason);
  void cancel_all(Reason reason);
  // A message for the interpreter beside its executions: the answer to a call of a tool. Errc::conflict when it is
  // dead.
  Result<> tell(std::string_view message);
  // Bytes that were sent to the interpreter and that it has not taken.
  [[nodiscard]] std::size_t untaken_bytes() const { return process_->untaken_bytes(); }
  // While an execution waits for a person its time stands still. As many releases as holds.
  void hold_clock(std::uint64_t execution);
  void release_clock(std::uint64_t execution);

  // What the running cell asked for with input(). nullopt: the end of input.
  Result<> reply_input(std::optional<std::string> value);

  // Something that is done to it, for the journal.
  [[nodiscard]] journal::Act act_of(std::string_view verb) const;
  // A new interpreter under the same id. What ran and waited ends as cancelled. Errc::conflict while another does this.
  async::Task<Result<>> restart(journal::Actor actor = {});
  // Ends it for good. Returns when it is gone.
  async::Task<> stop();

  Kernel(std::shared_ptr<Sandbox> sandbox, std::string id, std::shared_ptr<Process> process,
         std::shared_ptr<KernelTotals> totals);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // Its executions that have ended.
  [[nodiscard]] RecentExecutions& recent() { return recent_; }

 private:
  static async::Task<> serve(std::shared_ptr<Kernel> self, std::shared_ptr<Process> process);
  async::Task<Result<>> begin();
  async::Task<> wait_for_reader();
  void on_event(const Event& event);
  void on_record(std::string_view record);
  void on_message(KernelMessage message);
  void on_announced();
  void on_message_of_running(KernelMessage message);
  void on_reply(KernelMessage message);
  void finish(const std::shared_ptr<Execution>& execution, ExecutionEnd end, std::size_t reply_bytes = 0);
  async::Task<Result<>> start_again();
  async::Task<> end_process();
  [[nodiscard]] tl::unexpected<Error> is_dead() const;
  void on_protocol_error(std::string_view why);
  void run_next();
  static async::Task<> count(std::shared_ptr<Kernel> self);
  void die();
  void arm(std::chrono::milliseconds left, Reason reason);
  Result<> send_interrupt();
  std::shared_ptr<Execution> enqueue(ExecutionOrder order, ExecutionLimits limits);
  [[nodiscard]] journal::Act act_of(const ExecuteRequest& request) const;

  std::shared_ptr<Sandbox> sandbox_;
  std::shared_ptr<Process> process_;
  std::string id_;
  std::shared_ptr<KernelTotals> totals_;
  KernelOptions options_;
  State state_ = State::starting;
  std::string version_;
  async::Signal changed_;
  KernelInbox inbox_;
  std::deque<std::shared_ptr<Execution>> queue_;
  std::shared_ptr<Execution> running_;
  RecentExecutions recent_;
  std::uint64_t next_id_;
  std::uint64_t executions_ = 0;
  boost::asio::steady_timer deadline_;
  std::size_t clock_holds_ = 0;                    // of the running one
  std::optional<std::chrono::milliseconds> left_;  // of its time, while it stands still
  std::optional<Reason> stopping_;                 // why the running one was interrupted
  bool announced_ = false;                         // the interpreter has begun with the running one
  bool interrupt_due_ = false;                     // as soon as it has
  std::string broken_;                             // why it had to be ended
  bool counting_ = false;                          // what the last one met
  bool ending_ = false;                            // it is ended, whatever it does
  bool restarting_ = false;
  bool removed_ = false;
};

std::string_view name_of(Kernel::State state);

}  // namespace cove::sandbox
