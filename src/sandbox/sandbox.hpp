#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "async/task_group.hpp"
#include "base/id.hpp"
#include "sandbox/init_link.hpp"
#include "sandbox/keeper_client.hpp"
#include "sandbox/process.hpp"
#include "sandbox/readiness.hpp"
#include "sandbox/templates.hpp"
#include "store/store.hpp"

namespace cove::sandbox {

enum class State : std::uint8_t { creating, running, paused, deleting, gone };
std::string_view name_of(State state);

struct PythonStarts {
  std::uint64_t warm = 0;
  std::uint64_t cold = 0;
};

// Whoever needs no key.
inline constexpr std::string_view kDefaultTenant = "default";

// Which zygotes a tenant's interpreters come from. What is forked from one shares its hash seed and the layout of its
// memory (SECURITY.md ZY-01).
class ZygoteLines {
 public:
  enum class Sharing : std::uint8_t { tenant, everyone };
  explicit ZygoteLines(Sharing sharing = Sharing::tenant) : sharing_(sharing) {}
  // 0: the common line, from which also the pool is filled.
  std::uint32_t of(const std::string& tenant);

 private:
  Sharing sharing_;
  std::map<std::string, std::uint32_t> numbers_;
};

// What every sandbox needs of the server it lives in.
struct Surroundings {
  boost::asio::any_io_executor executor;
  async::TaskGroup& tasks;
  KeeperClient& keeper;
  store::Store& store;
  Templates& templates;
  int run_dir;  // where inits listen
  PythonStarts pythons = {};
  ZygoteLines zygotes = ZygoteLines();
};

// Whether a sandbox is for its callers to name, or for one piece of work of ours: not listed, not found, not written
// down, and gone when the server is.
enum class Purpose : std::uint8_t { named, throwaway };

// One live sandbox. Made and ended by the Registry; everything that happens inside goes through here.
class Sandbox : public std::enable_shared_from_this<Sandbox> {
 public:
  Sandbox(Surroundings& surroundings, store::SandboxRow row, Purpose purpose = Purpose::named);

  [[nodiscard]] const store::SandboxRow& row() const { return row_; }
  [[nodiscard]] const std::string& name() const { return row_.name; }
  [[nodiscard]] const std::string& tenant() const { return row_.tenant; }
  [[nodiscard]] Purpose purpose() const { return purpose_; }
  [[nodiscard]] State state() const { return state_; }
  // Notified of every change of state.
  [[nodiscard]] async::Signal& changed() { return changed_; }

  // Life. Activity holds the sandbox alive while it lasts and re-arms its time at the end. Where nothing renews the
  // time (SandboxRow::renewal), neither does anything here: it ends when it was said to.
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
  void touch();
  void set_ttl(std::chrono::milliseconds ttl);
  [[nodiscard]] bool expired() const;
  [[nodiscard]] std::chrono::milliseconds expires_boot() const { return expires_boot_; }
  [[nodiscard]] std::int64_t expires_unix_ms() const;

  // A process is there when this returns, running or failed to start, which is its end then. Errc::invalid for a
  // working directory that does not exist, Errc::conflict while paused, Errc::unavailable when the sandbox is going.
  async::Task<Result<std::shared_ptr<Process>>> start(ProcessRequest request);
  // A Python of the runtime (runtime/python) that waits for its first message on the channel: forked from a warm one,
  // or started cold where none is. The command of the request is only what it is known by.
  async::Task<Result<std::shared_ptr<Process>>> start_python(ProcessRequest request);
  // The same of node's (runtime/javascript), which is always started cold.
  async::Task<Result<std::shared_ptr<Process>>> start_node(ProcessRequest request);
  // The whole environment of a process: the sandbox's own variables and those of the request.
  [[nodiscard]] std::vector<std::string> environment(const ProcessRequest& request) const;
  // What such a Python is told first: what it is to become, and its environment.
  [[nodiscard]] boost::json::object first_message(std::string_view mode, const ProcessRequest& request) const;
  [[nodiscard]] std::shared_ptr<Process> find_process(std::uint32_t number) const;
  // By ProcessRequest::known_by; nullptr when there is none.
  [[nodiscard]] std::shared_ptr<Process> find_known_by(std::string_view name) const;
  // Those callers may see, by number.
  [[nodiscard]] std::vector<std::shared_ptr<Process>> processes() const;
  // Ends it if it still runs, and never speaks of it again.
  void forget(const std::shared_ptr<Process>& process);
  // Nobody reads it any more: it gets a moment to end by itself, and is forgotten then.
  void release(const std::shared_ptr<Process>& process);

  // Ends every process in it; those that are followed end as usual.
  void kill_everything();

  async::Task<Result<wire::KeeperReply>> inspect();
  async::Task<Result<>> pause();
  async::Task<Result<>> resume();

  [[nodiscard]] const boost::asio::any_io_executor& executor() const { return surroundings_.executor; }
  [[nodiscard]] async::TaskGroup& tasks() const { return surroundings_.tasks; }
  // The processes behind kernels, for who drives those.
  [[nodiscard]] std::vector<std::shared_ptr<Process>> interpreters() const;

  // For Process.
  [[nodiscard]] InitLink* link() { return link_ ? &*link_ : nullptr; }
  void flush();
  void charge(Process& process) const;
  // What its processes' events take of the server's memory is bounded.
  void hold(std::size_t bytes);
  void let_go(std::size_t bytes) { held_ -= std::min(held_, bytes); }

  // For the Pool: an interpreter that the next start_python() gets; whether it lives; its end without ceremony.
  async::Task<Result<>> keep_python_ready();
  [[nodiscard]] bool answers() const;
  async::Task<> discard();
  // One that was made for nobody becomes somebody's.
  void take_identity(store::SandboxRow row, Purpose purpose);

 private:
  friend class Registry;
  friend class Pool;
  static constexpr std::chrono::milliseconds kLookAgain{250};
  static constexpr std::chrono::milliseconds kBirthTime{30'000};  // for an init, or a process without a time limit

  // Life: sandbox.cpp.
  async::Task<Result<>> create();
  async::Task<Result<>> adopt_into_keeper();
  async::Task<Result<>> reconnect();
  async::Task<> destroy();
  void set_state(State state);
  void persist_expiry();
  [[nodiscard]] bool renewable() const { return row_.renewal == "use"; }
  [[nodiscard]] tl::unexpected<Error> not_there() const;
  [[nodiscard]] wire::KeeperRequest request(wire::KeeperVerb verb) const;
  void count(const wire::KeeperReply& reply) {
    oom_kills_ = std::max(oom_kills_, reply.oom_kills);
    pids_refused_ = std::max(pids_refused_, reply.pids_refused);
  }

  // The line to init: sandbox_line.cpp.
  Result<UniqueFd> listen_for_front();
  Result<> connect();
  static async::Task<> listen(std::shared_ptr<Sandbox> self, std::shared_ptr<Readiness> readiness);
  void handle(const wire::Frame& frame);
  void restore(const store::ProcessRow& row);
  void on_known(std::uint32_t number, const wire::Known& known);
  void on_synced();
  void on_link_closed();
  void on_link_lost();

  // Its processes: sandbox_processes.cpp.
  static async::Task<> conclude(std::shared_ptr<Sandbox> self, std::shared_ptr<Process> process);
  async::Task<> count_again();
  void record_end(Process& process);
  void prune_finished();
  async::Task<Result<std::shared_ptr<Process>>> attempt(ProcessRequest request, wire::SpawnKind kind);
  async::Task<Result<>> be_ready(ProcessKind kind, std::function<bool()> abandoned);
  Result<> write_down(std::uint32_t number, const ProcessRequest& request);
  std::shared_ptr<Process> add(std::uint32_t number, ProcessRequest request);
  void take_back(const std::shared_ptr<Process>& process);
  async::Task<> see_born(std::shared_ptr<Process> process);
  void explain_failure(Process& failed, const std::string& name);

  // Interpreters: sandbox_python.cpp.
  async::Task<Result<std::shared_ptr<Process>>> give_birth(ProcessRequest request);
  std::shared_ptr<Process> take_spare(ProcessRequest& request);
  void tick();

  Surroundings& surroundings_;
  store::SandboxRow row_;
  SandboxId id_;
  Purpose purpose_;
  State state_ = State::creating;
  async::Signal changed_;
  std::optional<InitLink> link_;
  std::shared_ptr<Readiness> readiness_;
  bool inherited_ = false;  // from the server before us, and not connected to yet
  bool waiting_to_write_ = false;
  bool synced_ = false;
  std::set<std::uint32_t> known_again_;   // what init told of since the line was made
  std::uint32_t first_of_this_line_ = 1;  // processes from this number on were started over it
  std::map<std::uint32_t, std::shared_ptr<Process>> processes_;
  std::map<std::uint32_t, store::ProcessRow> remembered_;  // of the front before, until init has spoken
  std::chrono::milliseconds expires_boot_{0};
  std::chrono::milliseconds persisted_expiry_{0};
  int active_ = 0;
  int births_ = 0;                  // on their way
  std::shared_ptr<Process> spare_;  // an interpreter that waits for its first message
  std::size_t held_ = 0;
  std::uint64_t oom_kills_ = 0;
  std::uint64_t pids_refused_ = 0;
  bool uncounted_ = false;  // something ended since they were read
  bool counting_ = false;
};

}  // namespace cove::sandbox
