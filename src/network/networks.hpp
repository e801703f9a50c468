#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "async/signal.hpp"
#include "async/task.hpp"
#include "egress/policy.hpp"
#include "network/egress_client.hpp"
#include "sandbox/networking.hpp"
#include "sandbox/registry.hpp"

namespace cove::network {

// One decision of the egress process, as it is shown.
struct LogRecord {
  std::uint64_t number = 0;
  boost::json::object record;
};

struct NetworkCounters {
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t bytes_in = 0;   // to sandboxes, of connections that are over
  std::uint64_t bytes_out = 0;  // from them
  std::uint64_t lost = 0;       // decisions that came too fast to be written down
};

// The way out of every sandbox: which policy holds, the kernel's part and the egress process's part of it, and what was
// decided. A policy that cannot be set leaves the one before in force.
class Networks : public sandbox::Networking {
 public:
  struct Options {
    std::function<egress::Policy()> usual;  // of sandboxes for which nothing was asked
    std::function<std::size_t()> log_size;  // records that are kept of each sandbox
  };
  Networks(boost::asio::any_io_executor executor, async::TaskGroup& tasks, sandbox::Registry& registry, Options options,
           std::function<void(std::string_view line)> warn);

  // The first egress process, or the next: every network that is open is opened in it.
  void connect(UniqueFd socket);
  // After a restart, when the sandboxes are back: their policies are read from the store.
  async::Task<> restore();

  async::Task<Result<>> open(std::shared_ptr<sandbox::Sandbox> sandbox, std::string policy_json) override;
  async::Task<Result<>> furnish(std::shared_ptr<sandbox::Sandbox> sandbox) override;
  void forget(const std::string& id) override;

  // `actor`: who asks, for the journal.
  async::Task<Result<>> set(std::shared_ptr<sandbox::Sandbox> sandbox, egress::Policy policy, wire::EgressScope scope,
                            journal::Actor actor = {});
  [[nodiscard]] egress::Policy policy_of(const sandbox::Sandbox& sandbox) const;
  // The counters and the certificate of the egress process, for a sandbox whose network is open; empty for another.
  async::Task<Result<boost::json::object>> inspect(std::shared_ptr<sandbox::Sandbox> sandbox);

  // Where the proxy listens inside, as a URL; "" where there is none: no network, or its port was taken.
  [[nodiscard]] std::string proxy_of(const sandbox::Sandbox& sandbox) const;

  // The oldest first, those after `after`.
  [[nodiscard]] std::vector<LogRecord> log(const sandbox::Sandbox& sandbox, std::uint64_t after,
                                           std::size_t most) const;
  // Returns when there may be more of it, and at `until` at the latest.
  async::Task<> log_grown(const sandbox::Sandbox& sandbox, std::chrono::steady_clock::time_point until);
  [[nodiscard]] const NetworkCounters& counters() const { return counters_; }
  [[nodiscard]] std::size_t open_networks() const;

 private:
  struct Network {
    explicit Network(boost::asio::any_io_executor executor) : changed(std::move(executor)) {}
    egress::Policy policy;
    bool open = false;  // the egress process serves it
    bool proxy = false;
    std::string certificate;  // of the authority that egress made for names with headers (PEM)
    std::string trusted;      // that of them which programs inside were told of
    bool busy = false;        // somebody changes it
    async::Signal changed;
    std::deque<LogRecord> log;
    std::uint64_t next_number = 1;
  };
  using Held = std::shared_ptr<Network>;

  Held of(const std::string& id);
  async::Task<> acquire(Held network);
  async::Task<Result<>> change(std::shared_ptr<sandbox::Sandbox> sandbox, Held network, egress::Policy policy,
                               wire::EgressScope scope);
  async::Task<Result<>> open_ways(std::shared_ptr<sandbox::Sandbox> sandbox, Held network, egress::Policy policy);
  async::Task<Result<>> close_ways(std::shared_ptr<sandbox::Sandbox> sandbox, Held network);
  async::Task<> go_back(std::shared_ptr<sandbox::Sandbox> sandbox, Held network, egress::Policy policy);
  void close_later(const std::string& id);
  async::Task<> open_again();
  Result<> write_down(const sandbox::Sandbox& sandbox, const egress::Policy& policy);
  void on_decided(const SandboxId& id, std::string_view record);

  boost::asio::any_io_executor executor_;
  async::TaskGroup& tasks_;
  sandbox::Registry& registry_;
  Options options_;
  std::function<void(std::string_view line)> warn_;
  EgressClient egress_;
  std::map<std::string, Held> networks_;  // by the sandbox's id
  NetworkCounters counters_;
};

}  // namespace cove::network
