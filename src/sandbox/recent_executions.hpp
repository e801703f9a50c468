#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/tenant_usage.hpp"
#include "guest/outcome.hpp"
#include "sandbox/execution.hpp"

namespace cove::sandbox {

using guest::Reason;

// Of every kernel together.
struct KernelTotals {
  std::map<Reason, std::uint64_t> ended = {};  // executions, since the server began
  TenantUsage recent = {};                     // executions that have ended and can be read again
  UsageBounds recent_bounds = {};
  std::uint64_t recent_evicted = 0;  // because of these bounds
  // Forgets the oldest of a kernel of the tenant's that holds the most. False: there is none.
  std::function<bool(const std::string& tenant)> forget_oldest = {};
};

// The executions of one kernel that have ended and can be read again. Bounded for the kernel, its tenant and the
// server.
class RecentExecutions {
 public:
  RecentExecutions(std::string tenant, std::shared_ptr<KernelTotals> totals);
  RecentExecutions(const RecentExecutions&) = delete;
  RecentExecutions& operator=(const RecentExecutions&) = delete;
  ~RecentExecutions();

  void add(std::shared_ptr<Execution> execution);
  // nullptr when there is none.
  [[nodiscard]] std::shared_ptr<Execution> find(std::uint64_t id) const;
  // There is one.
  void forget_oldest();

  [[nodiscard]] const std::string& tenant() const { return tenant_; }
  [[nodiscard]] bool empty() const { return executions_.empty(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::string tenant_;
  std::shared_ptr<KernelTotals> totals_;
  std::deque<std::shared_ptr<Execution>> executions_;
  std::size_t bytes_ = 0;
};

}  // namespace cove::sandbox
