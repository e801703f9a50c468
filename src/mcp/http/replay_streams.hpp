#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/tenant_usage.hpp"
#include "mcp/http/stream.hpp"

namespace cove::mcp_http {

// Streams that were sent, kept for a while for clients that did not get all of them. Past its bound a tenant loses its
// own oldest; past the bound of all, the tenant that has the most loses its oldest. A stream that has not ended is kept
// whatever it holds.
class ReplayStreams {
 public:
  static constexpr std::chrono::minutes kAge{5};      // after its end
  static constexpr std::uint64_t kLeast = 16U << 10;  // bytes that one counts at least: it costs more than its text
  using Clock = std::chrono::steady_clock;
  struct Kept {
    std::shared_ptr<Stream> stream;
    std::function<bool()> expired;  // nobody can ask for it any more
    std::function<void()> forget;   // it is kept no longer
    std::uint64_t charged = 0;      // bytes
  };

  void keep(const std::string& tenant, Kept kept, const UsageBounds& bounds);
  // Lets go of what is old, and of what nobody can ask for.
  void tidy();

  [[nodiscard]] const Amount& held() const { return usage_.all(); }
  // Because of a bound.
  [[nodiscard]] const std::uint64_t& evicted() const { return evicted_; }

 private:
  using Streams = std::deque<Kept>;  // oldest first
  // Counts what they have become, and lets go of the old ones.
  void refresh(const std::string& tenant, Streams& streams);
  // False: all of the tenant's go on.
  bool evict_oldest(const std::string& tenant);

  std::map<std::string, Streams> tenants_;
  TenantUsage usage_;
  std::uint64_t evicted_ = 0;
};

}  // namespace cove::mcp_http
