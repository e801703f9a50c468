#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "async/signal.hpp"
#include "async/task_group.hpp"
#include "base/tenant_usage.hpp"
#include "outbound/client.hpp"
#include "store/store.hpp"

namespace cove::jobs {

// Delivers callbacks by HTTP. Each is stored before the first attempt and retried with backoff, also after a restart,
// until it is accepted (2xx) or out of attempts. Redirects are not followed. Tenants take turns, so that receivers that
// hang delay only their own tenant's callbacks.
class Callbacks {
 public:
  struct Options {
    outbound::Reach reach;
    std::uint32_t attempts = 6;
    std::chrono::milliseconds backoff{2000};
    std::chrono::milliseconds timeout{10'000};
    std::uint64_t max_size_bytes = 1 << 20;
    std::uint32_t tenant_concurrent = 4;  // attempts under way, for one tenant
    std::uint32_t max_concurrent = 32;    // and for all
    UsageBounds pending;                  // neither delivered nor given up
  };
  // Since the start.
  struct Counters {
    std::uint64_t attempts = 0;
    std::uint64_t bodies_read = 0;
    std::uint64_t delivered = 0;
    std::uint64_t failed = 0;
    std::uint64_t refused = 0;    // executions, because too many callbacks were pending
    std::uint64_t shortened = 0;  // bodies without their large members, because too many bytes were pending
  };
  // Callbacks that will become pending when the executions that asked for them end.
  struct Unfinished {
    std::uint64_t of_tenant = 0;
    std::uint64_t of_all = 0;
  };
  using Log = std::function<void(std::string_view line)>;

  Callbacks(boost::asio::any_io_executor executor, async::TaskGroup& tasks, store::Store& store,
            outbound::Client& client, std::function<Options()> options, Log log);

  // Loads what a previous server left. To be called first.
  Result<> remember();
  // Errc::invalid for a malformed URL and for a literal address that may not be called.
  [[nodiscard]] Result<> check(std::string_view url) const;
  // Whether one more execution may ask for a callback. Errc::quota when its tenant has too many pending, or too many
  // bytes of them; Errc::unavailable when all together have. `retry_after` is when one of them is certain to be over.
  Result<> admit(const std::string& tenant, Unfinished unfinished);
  // `body`, without its large members if it is over the size limit or over what may still be pending.
  void add(const store::ExecutionRow& about, boost::json::object body);
  // Sends callbacks as they come due, until cancelled.
  async::Task<> deliver();
  // Deletes, from time to time, callbacks that are over and whose execution is forgotten, until cancelled.
  async::Task<> tidy();

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] const Amount& pending() const { return usage_.all(); }
  [[nodiscard]] std::size_t sending() const { return sending_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    std::string tenant;
    std::uint64_t size_bytes = 0;
    std::uint32_t attempts = 0;  // made so far
    std::int64_t next_unix_ms = 0;
  };
  struct Queue {
    std::set<std::pair<std::int64_t, std::string>> waiting;  // time of the next attempt, id
    std::uint32_t sending = 0;
  };
  class Attempt;

  async::Task<> attempt(std::string id);
  void judge(store::CallbackRow& row, const Result<outbound::Response>& answer) const;
  void enqueue(const store::CallbackRow& row);
  void forget(const std::string& id);
  void start_due();
  // The tenant whose callback is sent next; end when nobody's is due or may be sent.
  [[nodiscard]] std::map<std::string, Queue>::iterator next_tenant(std::int64_t now_unix_ms, const Options& options);
  [[nodiscard]] std::optional<std::int64_t> next_time(const Options& options) const;
  // The longest time until one of the tenant's callbacks is over, if no receiver answers. "": of any tenant's.
  [[nodiscard]] std::chrono::milliseconds until_one_is_over(const std::string& tenant) const;
  [[nodiscard]] std::chrono::milliseconds longest_rest(const std::string& id, const Options& options) const;

  async::TaskGroup& tasks_;
  store::Store& store_;
  outbound::Client& client_;
  std::function<Options()> options_;
  Log log_;
  async::Signal changed_;
  std::map<std::string, Pending> pending_;            // by id
  std::map<std::string, Queue> queues_;               // by tenant
  std::map<std::string, Clock::time_point> sending_;  // id to its deadline
  std::string last_tenant_;                           // the tenant that was served last
  TenantUsage usage_;                                 // of pending_
  Counters counters_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // attempts may outlive this object, with the loop
};

}  // namespace cove::jobs
