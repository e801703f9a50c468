#include "sandbox/admission.hpp"

#include <algorithm>
#include <cmath>

#include "sandbox/poll_interval.hpp"

namespace cove::sandbox {

using Clock = std::chrono::steady_clock;

void Admission::set_options(Options options) {
  options_ = options;
  call_next();
}

bool Admission::share_has_room(const std::string& name, const Tenant& tenant) const {
  if (tenant.share.at_once == 0) return true;
  return tenant.inside + (options_.background ? options_.background(name) : 0) < tenant.share.at_once;
}

bool Admission::has_room(const std::string& name, const Tenant& tenant) const {
  const std::uint32_t kept_free =
      options_.keeps_some_free && options_.at_once >= 4 ? std::max(1U, options_.at_once / 8) : 0;
  return inside_ < options_.at_once && tenant.inside < options_.at_once - kept_free && share_has_room(name, tenant);
}

Result<> Admission::spend(Tenant& tenant) {
  if (tenant.share.per_minute == 0) return {};
  const auto now = Clock::now();
  const double full = tenant.share.per_minute;
  if (tenant.tokens < 0) {
    tenant.tokens = full;
  } else {
    const double minutes = std::chrono::duration<double, std::ratio<60>>(now - tenant.counted).count();
    tenant.tokens = std::min(full, tenant.tokens + minutes * full);
  }
  tenant.counted = now;
  if (tenant.tokens < 1) {
    const int seconds = static_cast<int>(std::ceil((1 - tenant.tokens) * 60 / full));
    return fail_until(std::chrono::seconds(seconds), Errc::quota,
                      fmt::format("this tenant's limit of {} executions a minute is reached: try again in {} s",
                                  tenant.share.per_minute, seconds));
  }
  tenant.tokens -= 1;
  return {};
}

Result<> Admission::count(const std::string& name, Share share) {
  auto& tenant = tenants_[name];
  tenant.share = share;
  return spend(tenant);
}

Result<> Admission::begin_background(const std::string& name, Share share) {
  auto& tenant = tenants_[name];
  tenant.share = share;
  if (!share_has_room(name, tenant))
    return fail_until(std::chrono::seconds(1), Errc::quota,
                      fmt::format("this tenant's limit of {} running executions, including background "
                                  "processes, is reached: end one first",
                                  share.at_once));
  return spend(tenant);
}

async::Task<Result<Admission::Ticket>> Admission::enter(std::string name, Share share, std::function<bool()> abandoned,
                                                        std::optional<std::chrono::milliseconds> patience,
                                                        Counted counted) {
  auto pass = gate_ == nullptr ? std::nullopt : std::optional(gate_->enter());
  auto& tenant = tenants_[name];
  tenant.share = share;
  if (counted == Counted::now) COVE_CO_CHECK(spend(tenant));
  if (tenant.line.empty() && has_room(name, tenant)) {
    ++inside_;
    ++tenant.inside;
    last_called_ = name;
    co_return Ticket(*this, std::move(pass), std::move(name));
  }
  if (tenant.line.size() >= options_.waiting)
    co_return fail(Errc::quota, "too many executions are queued: try again later");
  const auto waiter = std::make_shared<Waiter>(executor_);
  tenant.line.push_back(waiter);
  ++waiting_;
  // Leaves the queue on every exit, also when this task is cancelled.
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
    co_await waiter->called.wait_until(std::min(until, Clock::now() + kPollInterval));
    if (waiter->admitted) break;
    if (Clock::now() >= until) co_return fail(Errc::unavailable, "the server is busy: no slot became free in time");
    if (abandoned && abandoned()) co_return fail(Errc::unavailable, "the request was abandoned");
  }
  leaving.has_ticket = true;
  co_return Ticket(*this, std::move(pass), name);
}

void Admission::leave(const std::string& tenant) {
  --inside_;
  --tenants_[tenant].inside;
  call_next();
}

// Round robin: the tenant after the one served last.
void Admission::call_next() {
  bool called = true;
  while (called && inside_ < options_.at_once && waiting_ > 0) {
    called = false;
    auto it = tenants_.upper_bound(last_called_);
    for (std::size_t seen = 0; seen < tenants_.size(); ++seen, ++it) {
      if (it == tenants_.end()) it = tenants_.begin();
      auto& [name, tenant] = *it;
      if (tenant.line.empty() || !has_room(name, tenant)) continue;
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
