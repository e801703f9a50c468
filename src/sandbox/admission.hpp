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

// Who may run something now. A place is free or it is not; who waits for one stands in its own tenant's line, and the
// lines take turns, so that one tenant's crowd costs another nothing but its share. If so wanted, some places are never
// taken by one tenant alone.
class Admission {
 public:
  struct Options {
    std::uint32_t at_once = 64;
    std::uint32_t waiting = 1024;  // of one tenant
    std::chrono::milliseconds patience{30'000};
    bool keeps_some_free = true;  // places that no tenant takes alone
    // What a tenant has running besides those inside: counted against its own share only. Empty: nothing.
    std::function<std::uint32_t(const std::string& tenant)> background = {};
  };
  // Of one tenant; 0: no limit of its own.
  struct Share {
    std::uint32_t at_once = 0;
    std::uint32_t per_minute = 0;
  };

  // Whoever is inside or waits is also inside `gate`, if there is one: a shutdown waits for them.
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
  // Errc::quota when the tenant has used up its share of the minute or the line is too long; Errc::unavailable when no
  // place came free in time.
  // `abandoned` is asked from time to time whether anybody still waits.
  // `patience`: how long to wait, if not as long as the options say.
  async::Task<Result<Ticket>> enter(std::string tenant, Share share, std::function<bool()> abandoned = {},
                                    std::optional<std::chrono::milliseconds> patience = {});

  // For what goes on in the background: it takes no place, but counts in the tenant's minute, and among what the tenant
  // may have running at once. Errc::quota.
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
    // A bucket of the minute's runs.
    double tokens = -1;
    std::chrono::steady_clock::time_point counted;
  };
  void leave(const std::string& tenant);
  void call_next();
  [[nodiscard]] bool has_room(const std::string& name, const Tenant& tenant) const;
  // Whether the tenant's own share has room for one more.
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
