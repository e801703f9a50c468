#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "async/task_group.hpp"
#include "base/id.hpp"
#include "sandbox/births.hpp"
#include "sandbox/init_session.hpp"
#include "sandbox/process.hpp"
#include "sandbox/process_table.hpp"
#include "sandbox/reader.hpp"
#include "sandbox/sandbox_context.hpp"
#include "sandbox/sandbox_record.hpp"

namespace cove::sandbox {

// One live sandbox: its identity, its state and its time. Everything that happens inside goes through here.
class Sandbox : public std::enable_shared_from_this<Sandbox> {
 public:
  Sandbox(SandboxContext& context, store::SandboxRow row, Purpose purpose = Purpose::named, Line line = Line::named);
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;
  ~Sandbox();

  [[nodiscard]] const store::SandboxRow& row() const { return record_.row; }
  [[nodiscard]] const std::string& name() const { return record_.row.name; }
  [[nodiscard]] const std::string& tenant() const { return record_.row.tenant; }
  [[nodiscard]] Purpose purpose() const { return record_.purpose; }
  [[nodiscard]] State state() const { return record_.state; }
  // Notified of every change of state.
  [[nodiscard]] async::Signal& changed() { return changed_; }
  [[nodiscard]] const boost::asio::any_io_executor& executor() const { return context_.executor; }
  [[nodiscard]] async::TaskGroup& tasks() const { return context_.tasks; }
  // Null: no tools can be called.
  [[nodiscard]] ToolCalls* tool_calls() const { return context_.tool_calls; }
  // Says in the log what happened to it, or to something in it: words, then fields.
  void note(std::string_view words, std::string_view fields = {}) const;

  // Writes into the journal that something is being done in it. Null for what the server itself does (an actor without
  // a door), and while the journal is switched off.
  [[nodiscard]] std::shared_ptr<journal::Entry> begin_act(const journal::Actor& actor, journal::Act act) const;
  [[nodiscard]] journal::Subject subject() const;

  // An activity keeps the sandbox from expiring while it lasts, and renews its TTL at the end. A sandbox that is not
  // renewable (SandboxRow::renewal) expires when it was said to.
  class Activity {
   public:
    explicit Activity(std::shared_ptr<Sandbox> sandbox);
    Activity(const Activity&) = delete;
    Activity& operator=(const Activity&) = delete;
    Activity(Activity&&) = default;
    Activity& operator=(Activity&&) = delete;
    ~Activity();

   private:
    std::shared_ptr<Sandbox> sandbox_;
  };
  [[nodiscard]] bool in_use() const { return active_ > 0; }
  // Renews its TTL.
  void touch();
  void set_ttl(std::chrono::milliseconds ttl);
  [[nodiscard]] bool expired() const;
  // Nothing in progress can postpone its expiry.
  [[nodiscard]] bool expiry_is_fixed() const { return active_ == 0 || !renewable(); }
  [[nodiscard]] std::chrono::milliseconds expires_boot() const { return expires_boot_; }
  [[nodiscard]] std::int64_t expires_unix_ms() const;

  // The process runs, or failed to start and has ended, when this returns. Errc::invalid for a working directory that
  // does not exist, Errc::conflict while paused, Errc::not_found when the sandbox is going.
  async::Task<Result<std::shared_ptr<Process>>> start(ProcessRequest request);
  // A Python of the runtime (runtime/python) that waits for its first message on the channel: warm, or cold where there
  // is no zygote. The request's command is only shown.
  async::Task<Result<std::shared_ptr<Process>>> start_python(ProcessRequest request);
  // The same for node (runtime/javascript), always cold.
  async::Task<Result<std::shared_ptr<Process>>> start_node(ProcessRequest request);
  // The whole environment of a process: the sandbox's own variables and those of the request.
  [[nodiscard]] std::vector<std::string> environment(const ProcessRequest& request) const;
  // The first message to such an interpreter: what it is to become, and its environment.
  [[nodiscard]] boost::json::object first_message(std::string_view mode, const ProcessRequest& request) const;

  // nullptr when there is none.
  [[nodiscard]] std::shared_ptr<Process> find_process(std::uint32_t number) const { return processes_.find(number); }
  // By ProcessTag::owner.
  [[nodiscard]] std::shared_ptr<Process> find_process(ProcessKind kind, std::string_view owner) const {
    return processes_.find(kind, owner);
  }
  // Those callers may see, by number.
  [[nodiscard]] std::vector<std::shared_ptr<Process>> processes() const { return processes_.visible(); }
  // The live processes of kernels.
  [[nodiscard]] std::vector<std::shared_ptr<Process>> interpreters() const { return processes_.interpreters(); }
  // Ends it if it still runs, and removes it.
  void forget(const std::shared_ptr<Process>& process) { processes_.forget(process); }
  // The process has no reader any more: it has a moment to end by itself, then it is forgotten.
  void release(const std::shared_ptr<Process>& process) { processes_.release(process); }
  // Ends every process in it; processes with readers end as usual.
  void kill_everything();

  async::Task<Result<wire::KeeperReply>> inspect();
  // Reads the counters, so that what comes next is not charged with what was refused before it.
  async::Task<> refresh_counters();
  // Returns when nobody reads them any more, or at that time.
  async::Task<> counted(std::chrono::steady_clock::time_point until);
  [[nodiscard]] SandboxLimits limits() const {
    return {.memory_bytes = record_.row.memory_bytes,
            .disk_bytes = record_.row.disk_bytes,
            .pids = record_.row.pids,
            .cpu_millis = record_.row.cpu_millis};
  }
  // Other limits from now on, also after a restart. Errc::conflict, with the numbers, when more than that is in use.
  async::Task<Result<>> set_limits(SandboxLimits limits);
  // The same for one that has no row in the store yet.
  async::Task<Result<>> apply_limits(SandboxLimits limits);
  // Has the keeper change the ways out of its network (wire/network_records.hpp). The answer comes over the socket.
  async::Task<Result<>> order_network(UniqueFd order, UniqueFd answer);
  // "K=V", for processes from now on; those of the sandbox and of a request win.
  void set_network_variables(std::vector<std::string> variables) { network_variables_ = std::move(variables); }
  async::Task<Result<>> pause();
  async::Task<Result<>> resume();

  // --- Lifecycle, for Registry and Pool. ---

  // Makes the sandbox. Its state stays `creating` until set_state().
  async::Task<Result<>> create();
  // Hands the sandbox to a keeper that did not create it.
  async::Task<Result<>> adopt_into_keeper();
  // Connects to an init that served the previous server, and restores its processes from the store.
  async::Task<Result<>> reconnect();
  // Gives a pooled sandbox the row of the request that takes it; its limits stay what they are.
  void take_identity(store::SandboxRow row, Purpose purpose);
  void set_state(State state);
  // An OOM kill or a refused fork, as the keeper reports it.
  void update_counters(const wire::KeeperReply& reply) { counters_.update(reply); }
  // Twice a second: renews the time of a sandbox in use, and no longer waits for stalled readers.
  void tick();
  // Returns when every process in it has been killed and nobody can reach it; the state is `gone` then.
  async::Task<> kill();
  // After kill(): returns when the kernel has taken everything of it apart.
  async::Task<> dismantle();
  // kill() and dismantle() for one without a store row and events, at most once.
  async::Task<> discard();

  // Forks an interpreter that the next start_python() gets.
  async::Task<Result<>> keep_python_ready(SpareUse use);
  // Its init lives, and so does the interpreter that is kept ready.
  [[nodiscard]] bool answers() const;

 private:
  InitSession::Handlers handlers();
  Result<UniqueFd> make_line();  // init's end of it
  Result<> connect();
  async::Task<> wait_until_synced();
  void on_disconnected();
  void on_frame(const wire::Frame& frame);
  void on_init_gone();
  static async::Task<> conclude(std::shared_ptr<Sandbox> self, std::shared_ptr<Process> process);

  enum class Interpreter { none, python, node };
  async::Task<Result<std::shared_ptr<Process>>> start_when_ready(ProcessRequest request, Interpreter interpreter);
  // The caller has checked that the sandbox takes processes, and keeps it alive.
  Births::Started begin(ProcessRequest request, Interpreter interpreter);
  async::Task<Result<>> wait_until_ready(ProcessKind kind, std::function<bool()> abandoned);
  void count_refusal(const Result<std::shared_ptr<Process>>& started);
  [[nodiscard]] wire::KeeperRequest request(wire::KeeperVerb verb) const;
  // Asks until a keeper has done it, or knows no such sandbox.
  async::Task<> insist(wire::KeeperVerb verb);
  void persist_expiry();
  // How long from now it may live without a server.
  [[nodiscard]] std::chrono::milliseconds lease() const;
  void send_lease();
  [[nodiscard]] bool renewable() const { return record_.row.renewal == "use"; }

  SandboxContext& context_;
  SandboxRecord record_;
  std::vector<std::string> network_variables_;
  SandboxId id_;
  async::Signal changed_;
  ResourceCounters counters_;
  std::shared_ptr<InitSession> session_;
  ProcessTable processes_;
  Births births_;
  std::chrono::milliseconds expires_boot_{0};
  std::chrono::milliseconds persisted_expiry_{0};
  std::chrono::milliseconds leased_expiry_{0};  // as init knows it
  int active_ = 0;
  bool counters_stale_ = false;  // something ended since they were read
  bool reading_counters_ = false;
};

}  // namespace cove::sandbox
