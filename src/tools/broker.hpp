#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "outbound/client.hpp"
#include "sandbox/core.hpp"
#include "sandbox/tool_calls.hpp"
#include "tools/approvals.hpp"
#include "tools/codegen/package.hpp"
#include "tools/connection.hpp"
#include "tools/definition.hpp"

namespace cove::tools {

// A call that somebody makes.
struct Call {
  std::shared_ptr<sandbox::Sandbox> sandbox;
  std::string kernel{};  // that makes it; "": of no kernel
  std::string server;
  std::string tool;  // as the server spells it, or the name of its module
  boost::json::object arguments;
  std::optional<std::chrono::milliseconds> timeout{};
  Approvals::Unattended unattended = Approvals::Unattended::wait;
  std::function<bool()> abandoned{};
  std::function<void(bool waits)> on_waiting{};  // for a person
};

// What is told to the one who made a call: a result, or why there is none.
struct Failure {
  enum class Kind : std::uint8_t { error, rejected, timeout, protocol };
  Kind kind = Kind::error;
  std::string message;
  int code = 0;  // of JSON-RPC
  boost::json::value data = nullptr;
  bool retryable = false;
};
using Outcome = tl::expected<mcp::client::CallResult, Failure>;
// {"result": {…}} or {"error": {…}}, as code in sandboxes reads it.
boost::json::object to_json(const Outcome& outcome);

struct ServerView {
  std::shared_ptr<const Definition> definition;
  std::vector<std::string> tools;  // as the server spells them
  std::vector<std::string> modules;
  bool connected = false;
  bool configured = false;  // by the operator, for everybody
};

struct BrokerCounters {
  std::uint64_t calls = 0;
  std::uint64_t failed = 0;
  std::uint64_t refused = 0;  // by policy, by a person, or for want of an answer
  std::uint64_t limited = 0;  // over a limit
  std::uint64_t retried = 0;
  std::uint64_t dropped = 0;  // answers that a kernel did not take
};

struct BrokerSettings {
  bool allow_loopback = false;
  std::vector<std::string> allow;      // host:port that may be reached whatever its address is
  std::vector<std::string> variables;  // that tenants' registrations may name; patterns
  std::chrono::milliseconds approval_timeout{};
  std::uint32_t servers = 0;     // of one sandbox
  std::uint32_t concurrent = 0;  // calls of one sandbox at once
  std::uint32_t rate = 0;        // a second, of one sandbox
  std::uint64_t result_bytes = 0;
  std::uint32_t log_records = 0;
  std::function<mcp::client::Launch(std::string name)>
      launch_on_host{};                        // of the operator's servers; none: they have no host
  std::map<std::string, std::string> named{};  // servers for every sandbox, each as the JSON of its parameters
};

// The servers whose tools code in sandboxes may call, and every call. Holds connections and credentials; what enters a
// sandbox are generated modules, arguments and results.
class Broker {
 public:
  using Settings = std::function<BrokerSettings()>;
  Broker(boost::asio::any_io_executor executor, sandbox::Core& core, outbound::Client& http, Settings settings);
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  // Connects, reads the tools, and writes the package if the definition has a directory. One of the same name is
  // replaced.
  //   Errc::invalid, Errc::denied, Errc::unavailable …: as the client reports what keeps it from the server
  //   Errc::quota: too many servers in this sandbox
  async::Task<Result<ServerView>> add(std::shared_ptr<sandbox::Sandbox> sandbox, Principal principal,
                                      Definition definition);
  // One that is configured for every sandbox, with its package.
  async::Task<Result<ServerView>> add_named(std::shared_ptr<sandbox::Sandbox> sandbox, std::string name);
  [[nodiscard]] bool named(std::string_view name) const { return settings_().named.contains(std::string(name)); }
  // Errc::not_found. Its package stays.
  Result<> remove(const sandbox::Sandbox& sandbox, std::string_view name);
  // Ends every connection of the sandbox; the next calls make new ones. No approver is needed any more.
  void reset(const sandbox::Sandbox& sandbox);
  [[nodiscard]] std::vector<ServerView> list(const sandbox::Sandbox& sandbox) const;
  // Errc::not_found, naming what is there.
  [[nodiscard]] Result<ServerView> find(const sandbox::Sandbox& sandbox, std::string_view name) const;
  async::Task<Outcome> call(Call call);
  // resources/read of a server: its contents.
  async::Task<tl::expected<boost::json::array, Failure>> read(Call call, std::string uri);
  // Asks for approval without a call; Failure when it is refused.
  async::Task<tl::expected<void, Failure>> approve(Call call);

  [[nodiscard]] Approvals& approvals() { return approvals_; }
  [[nodiscard]] const BrokerCounters& counters() const { return counters_; }
  [[nodiscard]] std::uint32_t running() const;
  [[nodiscard]] std::size_t servers() const;
  // Records of calls with a number above `after`, oldest first.
  [[nodiscard]] std::vector<boost::json::object> log(const sandbox::Sandbox& sandbox, std::uint64_t after,
                                                     std::size_t most) const;
  // Called with each sandbox that gets a server.
  void on_server(std::function<void(const std::shared_ptr<sandbox::Sandbox>&)> told) { on_server_ = std::move(told); }
  void count_dropped() { ++counters_.dropped; }
  [[nodiscard]] BrokerSettings settings() const { return settings_(); }

  // A sandbox that is gone.
  void forget(const std::string& sandbox_id);

 private:
  struct Server {
    Definition definition;
    std::shared_ptr<Connection> connection;
    std::vector<std::string> tools;
    std::vector<std::string> modules;
    std::map<std::string, std::string, std::less<>> pinned;  // tool to the hash of its definition
    std::map<std::string, bool, std::less<>> repeatable;     // those that may be called again after a failure
    bool configured = false;
    std::set<std::string, std::less<>> changed;  // tools whose definition is another than the pinned
    std::uint64_t checked = 0;  // the version of the tools, as the connection counts, that was compared
  };
  struct Records {
    std::deque<boost::json::object> list;
    std::uint64_t next = 1;
  };
  struct Group {  // of one sandbox
    explicit Group(boost::asio::any_io_executor executor) : freed(std::move(executor)) {}
    std::map<std::string, std::shared_ptr<Server>, std::less<>> servers;
    std::uint32_t running = 0;
    std::uint32_t waiting = 0;
    async::Signal freed;
    double credit = 0;
    std::chrono::steady_clock::time_point credited;
    Records records;
  };

  std::shared_ptr<Group> group_of(const std::string& sandbox_id);
  [[nodiscard]] std::shared_ptr<Server> server_of(const sandbox::Sandbox& sandbox, std::string_view name) const;
  // The same, and one that is configured for every sandbox is made.
  async::Task<Result<std::shared_ptr<Server>>> obtain(std::shared_ptr<sandbox::Sandbox> sandbox, std::string name);
  async::Task<Result<std::vector<codegen::Tool>>> learn(std::shared_ptr<Server> server);
  std::shared_ptr<Connection> connect_to(const std::shared_ptr<sandbox::Sandbox>& sandbox, const Principal& principal,
                                         const Definition& definition, bool every_variable);
  async::Task<Result<>> check_pins(std::shared_ptr<Server> server, std::shared_ptr<mcp::client::Client> client,
                                   std::string tool);
  async::Task<Result<>> take_slot(std::shared_ptr<Group> group, std::function<bool()> abandoned);
  async::Task<std::optional<Failure>> permit(const Call& call, const Server* server);
  async::Task<Outcome> attempt(Call& call, std::shared_ptr<Server> server);
  void record(Group& group, const Call& call, const std::string& hash, const Outcome& outcome,
              std::chrono::steady_clock::time_point began);

  boost::asio::any_io_executor executor_;
  sandbox::Core& core_;
  outbound::Client& http_;
  Settings settings_;
  Approvals approvals_;
  std::shared_ptr<mcp::client::EraMemory> eras_ = mcp::client::make_era_memory();
  std::map<std::string, std::shared_ptr<Group>> groups_;
  std::map<std::pair<std::string, std::string>, std::weak_ptr<Connection>> shared_;  // by tenant and configured name
  BrokerCounters counters_;
  std::function<void(const std::shared_ptr<sandbox::Sandbox>&)> on_server_ = [](const auto&) {};
};

}  // namespace cove::tools
