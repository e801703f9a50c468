#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/tenant_usage.hpp"
#include "store/execution_table.hpp"

namespace cove::jobs {

// What is remembered of asynchronous executions that have ended: of each sandbox so many, of each tenant and of all so
// many bytes. The oldest are forgotten first; past the bound of all, those of the tenant that has the most.
class ExecutionHistory {
 public:
  struct Limits {
    std::uint32_t sandbox_count = 100;
    std::uint64_t sandbox_bytes = 16U << 20;
    UsageBounds bytes;  // of code and results; numbers are not looked at
  };
  // `lives`: whether there still is a sandbox of this id. What was remembered of one that has gone went with it.
  ExecutionHistory(store::ExecutionTable& table, std::function<Limits()> limits,
                   std::function<bool(const std::string& sandbox)> lives);

  // Before anything else: what a server before us left.
  Result<> load();
  // Writes down the end of one, and forgets what is too much now.
  Result<> add(const store::ExecutionRow& row);

  // Of all tenants.
  [[nodiscard]] Amount held();
  // Because of a bound of the tenant's or of all.
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
