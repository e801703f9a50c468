#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/tenant_usage.hpp"
#include "store/execution_table.hpp"

namespace cove::jobs {

// Keeps finished asynchronous executions: a number for each sandbox, bytes for each tenant and for all. Past a bound
// the oldest are dropped; past the bound for all, those of the tenant that has the most.
class ExecutionHistory {
 public:
  struct Limits {
    std::uint32_t sandbox_count = 100;
    std::uint64_t sandbox_bytes = 16U << 20;
    UsageBounds bytes;  // of code and results; counts are not limited
  };
  // `lives`: whether the sandbox with this id still exists. Its executions are deleted with it.
  ExecutionHistory(store::ExecutionTable& table, std::function<Limits()> limits,
                   std::function<bool(const std::string& sandbox)> lives);

  // Loads what a previous server left. To be called first.
  Result<> load();
  // Stores the result of one, and drops what is over the bounds.
  Result<> add(const store::ExecutionRow& row);

  // Of all tenants.
  [[nodiscard]] Amount held();
  // Dropped because of a bound of the tenant's or of all.
  [[nodiscard]] const std::uint64_t& evicted() const { return evicted_; }

 private:
  struct OfSandbox {
    std::string tenant;
    Amount amount;
  };
  void set(const std::string& sandbox, const std::string& tenant, Amount amount);
  void forget_gone_sandboxes();
  Result<> make_room(const std::string& tenant, const UsageBounds& bounds);

  store::ExecutionTable& table_;
  std::function<Limits()> limits_;
  std::function<bool(const std::string&)> lives_;
  std::map<std::string, OfSandbox> sandboxes_;
  TenantUsage usage_;
  std::uint64_t evicted_ = 0;
};

}  // namespace cove::jobs
