#include "base/tenant_usage.hpp"

#include <algorithm>

namespace cove {

void TenantUsage::charge(std::string_view tenant, Amount amount) {
  auto found = tenants_.find(tenant);
  if (found == tenants_.end()) {
    found = tenants_.emplace(std::string(tenant), Amount{}).first;
    by_count_.emplace(0, found->first);
    by_bytes_.emplace(0, found->first);
  }
  set(found, {.count = found->second.count + amount.count, .bytes = found->second.bytes + amount.bytes});
}

void TenantUsage::release(std::string_view tenant, Amount amount) {
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return;
  set(found, {.count = found->second.count - std::min(found->second.count, amount.count),
              .bytes = found->second.bytes - std::min(found->second.bytes, amount.bytes)});
  if (found->second != Amount{}) return;
  by_count_.erase({0, found->first});
  by_bytes_.erase({0, found->first});
  tenants_.erase(found);
}

void TenantUsage::set(Tenants::iterator tenant, Amount amount) {
  auto& [name, held] = *tenant;
  all_.count += amount.count - held.count;
  all_.bytes += amount.bytes - held.bytes;
  by_count_.erase({held.count, name});
  by_bytes_.erase({held.bytes, name});
  held = amount;
  by_count_.emplace(held.count, name);
  by_bytes_.emplace(held.bytes, name);
}

Amount TenantUsage::of(std::string_view tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? Amount{} : found->second;
}

Bound TenantUsage::passed(std::string_view tenant, Amount more, const UsageBounds& bounds) const {
  const auto over = [](std::uint64_t held, std::uint64_t added, std::uint64_t most) {
    return held > most || added > most - held;
  };
  const auto own = of(tenant);
  if (over(own.count, more.count, bounds.tenant.count)) return Bound::tenant_count;
  if (over(own.bytes, more.bytes, bounds.tenant.bytes)) return Bound::tenant_bytes;
  if (over(all_.count, more.count, bounds.all.count)) return Bound::all_count;
  if (over(all_.bytes, more.bytes, bounds.all.bytes)) return Bound::all_bytes;
  return Bound::none;
}

std::string TenantUsage::largest_holder(Bound bound) const {
  const auto& order = bound == Bound::tenant_bytes || bound == Bound::all_bytes ? by_bytes_ : by_count_;
  return order.empty() ? std::string() : std::string(order.rbegin()->second);
}

}  // namespace cove
