#include "mcp/http/replay_streams.hpp"

#include <algorithm>

namespace cove::mcp_http {

void ReplayStreams::keep(const std::string& tenant, Kept kept, const UsageBounds& bounds) {
  auto& streams = tenants_[tenant];
  kept.charged = std::max<std::uint64_t>(kept.stream->bytes(), kLeast);
  usage_.charge(tenant, {.count = 1, .bytes = kept.charged});
  streams.push_back(std::move(kept));
  refresh(tenant, streams);
  for (auto bound = usage_.passed(tenant, {}, bounds); bound != Bound::none;
       bound = usage_.passed(tenant, {}, bounds)) {
    const bool own = bound == Bound::tenant_count || bound == Bound::tenant_bytes;
    if (!evict_oldest(own ? tenant : usage_.largest_holder(bound))) break;
    ++evicted_;
  }
  if (streams.empty()) tenants_.erase(tenant);
}

void ReplayStreams::refresh(const std::string& tenant, Streams& streams) {
  const auto before = Clock::now() - kAge;
  std::erase_if(streams, [&](Kept& one) {
    if (!one.expired() && !one.stream->stale(before)) {
      const auto now = std::max<std::uint64_t>(one.stream->bytes(), kLeast);
      usage_.charge(tenant, {.count = 0, .bytes = now});
      usage_.release(tenant, {.count = 0, .bytes = one.charged});
      one.charged = now;
      return false;
    }
    usage_.release(tenant, {.count = 1, .bytes = one.charged});
    one.forget();
    return true;
  });
}

bool ReplayStreams::evict_oldest(const std::string& tenant) {
  const auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return false;
  auto& streams = found->second;
  const auto oldest = std::ranges::find_if(streams, [](const Kept& one) { return one.stream->finished(); });
  if (oldest == streams.end()) return false;
  usage_.release(tenant, {.count = 1, .bytes = oldest->charged});
  oldest->forget();
  streams.erase(oldest);
  return true;
}

void ReplayStreams::tidy() {
  for (auto tenant = tenants_.begin(); tenant != tenants_.end();) {
    refresh(tenant->first, tenant->second);
    tenant = tenant->second.empty() ? tenants_.erase(tenant) : std::next(tenant);
  }
}

}  // namespace cove::mcp_http
