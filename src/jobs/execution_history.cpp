#include "jobs/execution_history.hpp"

namespace cove::jobs {
namespace {

constexpr int kEvictedAtOnce = 64;  // a bound that was lowered is reached step by step

}  // namespace

ExecutionHistory::ExecutionHistory(store::ExecutionTable& table, std::function<Limits()> limits,
                                   std::function<bool(const std::string& sandbox)> lives)
    : table_(table), limits_(std::move(limits)), lives_(std::move(lives)) {}

Result<> ExecutionHistory::load() {
  COVE_TRY(const auto rows, table_.history());
  for (const auto& row : rows) set(row.sandbox, row.tenant, row.amount);
  return {};
}

void ExecutionHistory::set(const std::string& sandbox, const std::string& tenant, Amount amount) {
  auto& known = sandboxes_[sandbox];
  usage_.charge(tenant, amount);
  usage_.release(known.tenant, known.amount);
  known = {.tenant = tenant, .amount = amount};
  if (amount == Amount{}) sandboxes_.erase(sandbox);
}

void ExecutionHistory::forget_gone_sandboxes() {
  std::erase_if(sandboxes_, [&](const auto& entry) {
    if (lives_(entry.first)) return false;
    usage_.release(entry.second.tenant, entry.second.amount);
    return true;
  });
}

Result<> ExecutionHistory::make_room(const std::string& tenant, const UsageBounds& bounds) {
  if (usage_.passed(tenant, {}, bounds) != Bound::none) forget_gone_sandboxes();
  for (int n = 0; n < kEvictedAtOnce; ++n) {
    const auto bound = usage_.passed(tenant, {}, bounds);
    if (bound == Bound::none) return {};
    const auto loser = bound == Bound::tenant_bytes ? tenant : usage_.largest_holder(bound);
    COVE_TRY(const auto evicted, table_.evict_oldest(loser));
    if (!evicted) return {};
    COVE_TRY(const auto left, table_.history_of(*evicted));
    set(*evicted, loser, left);
    ++evicted_;
  }
  return {};
}

Result<> ExecutionHistory::add(const store::ExecutionRow& row) {
  const auto limits = limits_();
  COVE_CHECK(table_.finish(row));
  COVE_CHECK(table_.prune(row.sandbox, limits.sandbox_count, limits.sandbox_bytes));
  COVE_TRY(const auto now, table_.history_of(row.sandbox));
  set(row.sandbox, row.tenant, now);
  UsageBounds bounds;
  bounds.tenant.bytes = limits.bytes.tenant.bytes;
  bounds.all.bytes = limits.bytes.all.bytes;
  return make_room(row.tenant, bounds);
}

Amount ExecutionHistory::held() {
  forget_gone_sandboxes();
  return usage_.all();
}

}  // namespace cove::jobs
