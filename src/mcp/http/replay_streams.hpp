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

// Keeps sent streams for a while, for clients that reconnect. A tenant over its bound loses its oldest streams; over
// the bound for all tenants, the tenant that holds the most loses its oldest. A stream that has not ended is always
// kept.
class ReplayStreams {
 public:
  static constexpr std::chrono::minutes kAge{5};      // after its end
  static constexpr std::uint64_t kLeast = 16U << 10;  // bytes charged at least: a stream costs more than its text
  using Clock = std::chrono::steady_clock;
  struct Kept {
    std::shared_ptr<Stream> stream;
    std::function<bool()> expired;  // its session has ended
    std::function<void()> forget;   // called when it is dropped
    std::uint64_t charged = 0;      // bytes
  };

  void keep(const std::string& tenant, Kept kept, const UsageBounds& bounds);
  // Drops old streams, and those of ended sessions.
  void tidy();

  [[nodiscard]] const Amount& held() const { return usage_.all(); }
  // How many were dropped because of a bound.
  [[nodiscard]] const std::uint64_t& evicted() const { return evicted_; }

 private:
  using Streams = std::deque<Kept>;  // oldest first
  // Updates the charged bytes, and drops old streams.
  void refresh(const std::string& tenant, Streams& streams);
  // False: none of the tenant's streams has ended.
  bool evict_oldest(const std::string& tenant);

  std::map<std::string, Streams> tenants_;
  TenantUsage usage_;
  std::uint64_t evicted_ = 0;
};

}  // namespace cove::mcp_http
