#include "sandbox/admission.hpp"

#include <algorithm>

namespace cove::sandbox {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookAgain{250};

void Admission::set_options(Options options) {
  options_ = options;
  call_next();
}

bool Admission::has_room(const Tenant& tenant) const {
  const std::uint32_t kept_free =
      options_.keeps_some_free && options_.at_once >= 4 ? std::max(1U, options_.at_once / 8) : 0;
  return inside_ < options_.at_once && tenant.inside < options_.at_once - kept_free &&
         (tenant.share.at_once == 0 || tenant.inside < tenant.share.at_once);
}

bool Admission::spend(Tenant& tenant) {
  if (tenant.share.per_minute == 0) return true;
  const auto now = Clock::now();
  const double full = tenant.share.per_minute;
  if (tenant.tokens < 0) {
    tenant.tokens = full;
  } else {
    const double minutes = std::chrono::duration<double, std::ratio<60>>(now - tenant.counted).count();
    tenant.tokens = std::min(full, tenant.tokens + minutes * full);
  }
  tenant.counted = now;
  if (tenant.tokens < 1) return false;
  tenant.tokens -= 1;
  return true;
}

async::Task<Result<Admission::Ticket>> Admission::enter(std::string name, Share share, std::function<bool()> abandoned,
                                                        std::optional<std::chrono::milliseconds> patience) {
  auto& tenant = tenants_[name];
  tenant.share = share;
  if (!spend(tenant)) {
    co_return fail(Errc::quota,
                   fmt::format("this tenant may start {} executions a minute: try again later", share.per_minute));
  }
  if (tenant.line.empty() && has_room(tenant)) {
    ++inside_;
    ++tenant.inside;
    last_called_ = name;
    co_return Ticket(*this, std::move(name));
  }
  if (tenant.line.size() >= options_.waiting)
    co_return fail(Errc::quota, "too many executions are waiting already: try again later");
  const auto waiter = std::make_shared<Waiter>(executor_);
  tenant.line.push_back(waiter);
  ++waiting_;
  // Leaves the line on every way out, also when this task is cancelled.
  struct Leaving {
    Admission& admission;
    const std::string& name;
    std::shared_ptr<Waiter> waiter;
    bool has_ticket = false;
    ~Leaving() {
      if (has_ticket) return;
      if (waiter->admitted) {
        admission.leave(name);
        return;
      }
      auto& line = admission.tenants_[name].line;
      line.erase(std::remove(line.begin(), line.end(), waiter), line.end());
      --admission.waiting_;
    }
  } leaving{*this, name, waiter};
  const auto until = Clock::now() + patience.value_or(options_.patience);
  while (!waiter->admitted) {
    co_await waiter->called.wait_until(std::min(until, Clock::now() + kLookAgain));
    if (waiter->admitted) break;
    if (Clock::now() >= until) co_return fail(Errc::unavailable, "the server is busy: no place came free in time");
    if (abandoned && abandoned()) co_return fail(Errc::unavailable, "nobody waits for it any more");
  }
  leaving.has_ticket = true;
  co_return Ticket(*this, name);
}

void Admission::leave(const std::string& tenant) {
  --inside_;
  --tenants_[tenant].inside;
  call_next();
}

// The tenant after the one that was called last, round and round.
void Admission::call_next() {
  bool called = true;
  while (called && inside_ < options_.at_once && waiting_ > 0) {
    called = false;
    auto it = tenants_.upper_bound(last_called_);
    for (std::size_t seen = 0; seen < tenants_.size(); ++seen, ++it) {
      if (it == tenants_.end()) it = tenants_.begin();
      auto& [name, tenant] = *it;
      if (tenant.line.empty() || !has_room(tenant)) continue;
      const auto waiter = tenant.line.front();
      tenant.line.pop_front();
      --waiting_;
      ++inside_;
      ++tenant.inside;
      waiter->admitted = true;
      waiter->called.notify_all();
      last_called_ = name;
      called = true;
      break;
    }
  }
}

}  // namespace cove::sandbox
