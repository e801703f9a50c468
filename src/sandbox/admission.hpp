#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "async/gate.hpp"
#include "async/signal.hpp"
#include "async/task.hpp"
#include "base/result.hpp"

namespace cove::sandbox {

// Limits how many executions run at once. Waiting callers are queued by tenant, and the queues are served round robin,
// so one tenant's backlog delays another only by its share. Some slots can be reserved so that no single tenant takes
// them all.
class Admission {
 public:
  struct Options {
    std::uint32_t at_once = 64;
    std::uint32_t waiting = 1024;  // of one tenant
    std::chrono::milliseconds patience{30'000};
    bool keeps_some_free = true;  // slots that one tenant cannot take alone
    // Running work of a tenant that holds no slot; counts only against the tenant's own limit. Empty: none.
    std::function<std::uint32_t(const std::string& tenant)> background = {};
  };
  // Limits of one tenant; 0: none of its own.
  struct Share {
    std::uint32_t at_once = 0;
    std::uint32_t per_minute = 0;
  };

  // Running and waiting callers hold `gate`, if there is one, so that a shutdown waits for them.
  Admission(boost::asio::any_io_executor executor, Options options, async::Gate* gate = nullptr)
      : executor_(executor), options_(options), gate_(gate) {}
  void set_options(Options options);

  class Ticket {
   public:
    Ticket(Admission& admission, std::optional<async::Gate::Pass> pass, std::string tenant)
        : admission_(&admission), pass_(std::move(pass)), tenant_(std::move(tenant)) {}
    Ticket(Ticket&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          pass_(std::move(other.pass_)),
          tenant_(std::move(other.tenant_)) {}
    Ticket& operator=(Ticket&&) = delete;
    ~Ticket() {
      if (admission_ != nullptr) admission_->leave(tenant_);
    }

   private:
    Admission* admission_;
    std::optional<async::Gate::Pass> pass_;
    std::string tenant_;
  };
  // Counts one execution against the tenant's limit per minute, for one that enters later with Counted::before.
  // Errc::quota.
  Result<> count(const std::string& tenant, Share share);
  enum class Counted : std::uint8_t { now, before };

  // Errc::quota when the tenant's limit per minute is reached or the queue is full; Errc::unavailable when no slot
  // became free in time. `abandoned` is polled: true when the caller is gone. `patience`: how long to wait, instead of
  // the time in the options.
  async::Task<Result<Ticket>> enter(std::string tenant, Share share, std::function<bool()> abandoned = {},
                                    std::optional<std::chrono::milliseconds> patience = {},
                                    Counted counted = Counted::now);

  // For a background process: it takes no slot, but counts against the tenant's limits per minute and at once.
  // Errc::quota.
  Result<> begin_background(const std::string& tenant, Share share);

  [[nodiscard]] std::uint32_t inside() const { return inside_; }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_; }

 private:
  struct Waiter {
    explicit Waiter(boost::asio::any_io_executor executor) : called(executor) {}
    bool admitted = false;
    async::Signal called;
  };
  struct Tenant {
    std::uint32_t inside = 0;
    Share share;
    std::deque<std::shared_ptr<Waiter>> line;
    // A token bucket for the limit per minute.
    double tokens = -1;
    std::chrono::steady_clock::time_point counted;
  };
  void leave(const std::string& tenant);
  void call_next();
  [[nodiscard]] bool has_room(const std::string& name, const Tenant& tenant) const;
  // Whether the tenant's own limit allows one more.
  [[nodiscard]] bool share_has_room(const std::string& name, const Tenant& tenant) const;
  static Result<> spend(Tenant& tenant);

  boost::asio::any_io_executor executor_;
  Options options_;
  async::Gate* gate_;
  std::uint32_t inside_ = 0;
  std::uint32_t waiting_ = 0;
  std::map<std::string, Tenant> tenants_;
  std::string last_called_;
};

}  // namespace cove::sandbox
