#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "async/task_group.hpp"
#include "jail/plan.hpp"
#include "keeper/keeper.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/keeper_client.hpp"
#include "sandbox/kernels.hpp"
#include "sandbox/networking.hpp"
#include "sandbox/pool.hpp"
#include "sandbox/sandbox.hpp"
#include "store/store.hpp"
#include "templates/templates.hpp"

namespace cove::sandbox {

struct CreateRequest {
  std::string tenant;
  std::string name;
  std::chrono::milliseconds ttl{900'000};
  jail::Limits limits;
  std::string template_name{templates::kHostTemplate};
  std::string env_json = "{}";
  std::string labels_json = "{}";
  std::string metadata_json = "{}";
  std::string notes_json = "[]";
  Purpose purpose = Purpose::named;
  journal::Actor actor = {};                       // who asks, for the journal
  Pool::Content content = Pool::Content::nothing;  // what it will want at once
  std::string renewal = "use";                     // as SandboxRow::renewal
  std::string directory = "/workspace";            // as SandboxRow::directory
  std::string network_json;                        // a policy (egress/policy.hpp); "": the server's default
};

// Everything a sandbox writes is memory: what it may write must leave some. Registry::ensure gives no more than this.
constexpr std::uint64_t most_disk_bytes(std::uint64_t memory_bytes) {
  return memory_bytes / 4 * 3;
}

// What one tenant may have; 0: no limit of its own.
struct Quotas {
  std::uint32_t sandboxes = 0;
  std::uint64_t memory_bytes = 0;
};

enum class IfThere { keep, refuse };

struct Counters {
  std::uint64_t created = 0;
  std::uint64_t deleted = 0;
  std::uint64_t expired = 0;
  std::uint64_t lost = 0;
  std::uint64_t adopted = 0;
};

// Every sandbox of the server: makes, finds, expires and ends them, restores them after a restart, and publishes what
// happened. One thread.
class Registry {
 public:
  struct Options {
    std::uint32_t max_sandboxes = 1000;
    keeper::Enforcement enforcement;
    ZygoteGroups::Sharing zygotes = ZygoteGroups::Sharing::tenant;
    store::TemplateRow host_template;
    templates::Templates::Ask ask_builder;
    std::function<std::chrono::milliseconds()> orphan_grace = [] { return std::chrono::minutes(5); };
    std::function<void(std::string_view line)> note = [](std::string_view) {};
    std::function<RaisableLimits()> raisable = [] { return RaisableLimits{}; };
  };
  using Log = std::function<void(std::string_view line)>;

  // `on_keeper_hung` asks the supervisor for another keeper.
  Registry(boost::asio::any_io_executor executor, async::TaskGroup& tasks, store::Store& store, int run_dir,
           Options options, Log log, std::function<void()> on_keeper_hung);

  // Borrowed. Without it no sandbox has a way out.
  void set_networking(Networking* networking) { networking_ = networking; }
  // Borrowed. Without it kernels call no tools.
  void set_tool_calls(ToolCalls* tool_calls) { context_.tool_calls = tool_calls; }

  // At the start: reads what the server before us stored, hands it to the keeper and reconnects to every sandbox.
  async::Task<Result<>> restore(keeper::KeeperLink link);
  // After the death of a keeper: hands every sandbox to the new one. Completes a restore() that failed.
  async::Task<Result<>> replace_keeper(keeper::KeeperLink link);
  [[nodiscard]] bool keeper_lost() const { return keeper_.lost(); }
  // Expires what has expired, until cancelled.
  async::Task<> keep_time();

  // Ready when this returns. One that is there is kept and its time re-armed, or refused with Errc::exists.
  struct Ensured {
    std::shared_ptr<Sandbox> sandbox;
    bool created = false;
  };
  async::Task<Result<Ensured>> ensure(CreateRequest request, Quotas quotas, IfThere if_there);
  // Throwaways are not found. Errc::not_found also for one that has expired or is being deleted; waits while one is
  // being made.
  async::Task<Result<std::shared_ptr<Sandbox>>> find(std::string tenant, std::string name);
  // By SandboxRow::id, of any tenant; nullptr when there is none.
  [[nodiscard]] std::shared_ptr<Sandbox> by_id(const std::string& id) const;
  // Gives it other limits and publishes that. Errc::quota when its tenant may not have that much memory.
  async::Task<Result<>> set_limits(std::shared_ptr<Sandbox> sandbox, SandboxLimits limits, Quotas quotas);
  // Returns when every process in it has been killed and its name is free. Until the kernel has taken it apart, in the
  // background, it still counts in the quotas.
  async::Task<> remove(std::shared_ptr<Sandbox> sandbox, std::string why, journal::Actor actor = {});
  // The same in the background: from now on nobody finds it.
  void remove_later(std::shared_ptr<Sandbox> sandbox, std::string why);
  [[nodiscard]] std::vector<std::shared_ptr<Sandbox>> all() const;
  // Processes of a tenant that run in the background.
  [[nodiscard]] std::uint32_t background_of(const std::string& tenant) const;
  // By name, those after `after`, without throwaways.
  [[nodiscard]] std::vector<std::shared_ptr<Sandbox>> of(const std::string& tenant, const std::string& after) const;
  [[nodiscard]] std::size_t size() const { return by_name_.size(); }
  // Removed, and not taken apart by the kernel yet.
  [[nodiscard]] std::size_t leaving() const { return leaving_.size(); }

  // Asks the keeper something: whether sandboxes could be made now. Errc::unavailable when no answer comes in time.
  async::Task<Result<>> check(std::chrono::milliseconds patience);

  [[nodiscard]] templates::Templates& templates() { return templates_; }
  // Ends a template. Returns when nothing of it is left. Errc::conflict names the sandboxes that stand on it.
  async::Task<Result<>> remove_template(std::string name);

  [[nodiscard]] Kernels& kernels() { return kernels_; }
  [[nodiscard]] Pool& pool() { return pool_; }
  [[nodiscard]] const PythonStarts& python_starts() const { return context_.pythons; }

  // Lifecycle events.
  // Notified of every event of the tenant's, for as long as somebody holds it.
  [[nodiscard]] std::shared_ptr<async::Signal> events_of(const std::string& tenant);
  // An act of the journal too.
  void publish(std::string_view type, const Sandbox& sandbox, std::string data_json = "{}",
               const journal::Actor& actor = {});

  void set_max_sandboxes(std::uint32_t most) { options_.max_sandboxes = most; }
  [[nodiscard]] const keeper::Enforcement& enforcement() const { return options_.enforcement; }
  [[nodiscard]] store::Store& store() { return store_; }
  [[nodiscard]] journal::Journal& journal() { return journal_; }
  [[nodiscard]] async::TaskGroup& tasks() { return tasks_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  using Key = std::pair<std::string, std::string>;  // tenant, name
  void on_notice(const wire::KeeperReply& notice);
  Result<> load_sandboxes();
  void unlink_stale_sockets();
  async::Task<Result<>> hand_over(keeper::KeeperLink link);
  async::Task<Result<>> adopt_inherited(std::shared_ptr<Sandbox> sandbox);
  void give_up(const std::shared_ptr<Sandbox>& sandbox, const Error& error);
  std::shared_ptr<Sandbox> make_unnamed(const PoolKind& kind, const std::string& tenant);
  async::Task<> lose(std::shared_ptr<Sandbox> sandbox);
  async::Task<> forget_later(std::string id);
  async::Task<> finish_removal(std::shared_ptr<Sandbox> sandbox, std::string why, journal::Actor actor);
  async::Task<> dismantle(std::shared_ptr<Sandbox> sandbox);
  async::Task<Result<std::shared_ptr<Sandbox>>> make_way(CreateRequest request, Quotas quotas, IfThere if_there);
  std::shared_ptr<Sandbox> take_ready(const CreateRequest& request);
  void enroll(const std::shared_ptr<Sandbox>& sandbox);
  async::Task<Result<>> adapt(std::shared_ptr<Sandbox> ready, store::SandboxRow row, Purpose purpose);
  async::Task<Result<>> make_new(std::shared_ptr<Sandbox> sandbox);
  Result<> check_quotas(const CreateRequest& request, const Quotas& quotas) const;
  void remember_expired(const Sandbox& sandbox);
  [[nodiscard]] tl::unexpected<Error> absent(const Key& key) const;
  // Of a tenant's sandboxes, without this one.
  [[nodiscard]] std::uint64_t memory_of(const std::string& tenant, const Sandbox* without) const;

  async::Task<Result<>> open_network(std::shared_ptr<Sandbox> sandbox, std::string policy_json);

  async::TaskGroup& tasks_;
  store::Store& store_;
  Networking* networking_ = nullptr;
  Options options_;
  Log log_;
  journal::Journal journal_;
  KeeperClient keeper_;
  templates::Templates templates_;
  SandboxContext context_;
  Kernels kernels_;
  Pool pool_;
  std::map<Key, std::shared_ptr<Sandbox>> by_name_;
  std::map<std::string, std::shared_ptr<Sandbox>> by_id_;
  std::map<std::string, std::shared_ptr<Sandbox>> leaving_;        // removed, and not taken apart yet; by id
  async::Signal left_;                                             // fewer are leaving
  std::deque<std::pair<Key, std::chrono::milliseconds>> expired_;  // the newest, with their TTL; for messages
  async::Signal sooner_;                                           // something may expire earlier than was thought
  std::map<std::string, std::weak_ptr<async::Signal>> followers_;  // of events, by tenant
  bool limits_can_change_ = true;                                  // of a sandbox that lives, on this host
  Counters counters_;
  std::set<std::string> inherited_;  // ids of sandboxes of the server before us that are not reconnected yet
  bool loaded_ = false;              // what the server before us stored
  std::string boot_id_;
};

}  // namespace cove::sandbox
