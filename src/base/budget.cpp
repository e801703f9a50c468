#include "base/budget.hpp"

#include <utility>

#include "base/tenant_usage.hpp"

namespace cove {

struct Budget::Charge::State {
  UsageBounds bounds;
  TenantUsage usage;
  std::uint64_t refused = 0;
};

Budget::Charge::Charge(Charge&& other) noexcept
    : state_(std::move(other.state_)), owner_(std::move(other.owner_)), bytes_(std::exchange(other.bytes_, 0)) {}

Budget::Charge& Budget::Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  release();
  state_ = std::move(other.state_);
  owner_ = std::move(other.owner_);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

Result<> Budget::Charge::grow(std::uint64_t bytes) {
  if (!state_ || bytes == 0) return {};
  auto& [bounds, usage, refused] = *state_;
  switch (usage.passed(owner_, {.bytes = bytes}, bounds)) {
    case Bound::none:
      break;
    case Bound::tenant_count:
    case Bound::tenant_bytes:
      ++refused;
      return fail(Errc::quota, fmt::format("this tenant's requests use {} bytes of memory; the limit is {}",
                                           usage.of(owner_).bytes, bounds.tenant.bytes));
    case Bound::all_count:
    case Bound::all_bytes:
      ++refused;
      return fail(Errc::over_limit, fmt::format("the server's requests use {} bytes of memory; the limit is {}",
                                                usage.all().bytes, bounds.all.bytes));
  }
  usage.charge(owner_, {.bytes = bytes});
  bytes_ += bytes;
  return {};
}

void Budget::Charge::release() {
  if (!state_ || bytes_ == 0) return;
  state_->usage.release(owner_, {.bytes = bytes_});
  bytes_ = 0;
}

Budget::Budget(Limits limits) : state_(std::make_shared<Charge::State>()) {
  set_limits(limits);
}

void Budget::set_limits(Limits limits) {
  const auto bytes = [](std::uint64_t most) { return most == 0 ? kUnbounded.bytes : most; };
  state_->bounds.tenant.bytes = bytes(limits.of_one);
  state_->bounds.all.bytes = bytes(limits.of_all);
}

Result<Budget::Charge> Budget::take(std::string owner, std::uint64_t bytes) const {
  auto charge = open(std::move(owner));
  COVE_CHECK(charge.grow(bytes));
  return charge;
}

std::uint64_t Budget::held() const {
  return state_->usage.all().bytes;
}

std::uint64_t Budget::refused() const {
  return state_->refused;
}

}  // namespace cove
