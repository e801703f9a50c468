#include "sandbox/recent_executions.hpp"

#include <algorithm>

namespace cove::sandbox {
namespace {

constexpr std::size_t kMaxBytes = 4U << 20;  // of one kernel
constexpr std::size_t kMaxCount = 64;

}  // namespace

RecentExecutions::RecentExecutions(std::string tenant, std::shared_ptr<KernelTotals> totals)
    : tenant_(std::move(tenant)), totals_(std::move(totals)) {}

RecentExecutions::~RecentExecutions() {
  totals_->recent.release(tenant_, {.count = executions_.size(), .bytes = bytes_});
}

void RecentExecutions::add(std::shared_ptr<Execution> execution) {
  bytes_ += execution->held_bytes();
  totals_->recent.charge(tenant_, {.count = 1, .bytes = execution->held_bytes()});
  executions_.push_back(std::move(execution));
  while (executions_.size() > kMaxCount || (bytes_ > kMaxBytes && executions_.size() > 1)) forget_oldest();
  for (auto bound = totals_->recent.passed(tenant_, {}, totals_->recent_bounds); bound != Bound::none;
       bound = totals_->recent.passed(tenant_, {}, totals_->recent_bounds)) {
    const bool own = bound == Bound::tenant_bytes || bound == Bound::tenant_count;
    if (!totals_->forget_oldest(own ? tenant_ : totals_->recent.largest_holder(bound))) break;
    ++totals_->recent_evicted;
  }
}

void RecentExecutions::forget_oldest() {
  const auto bytes = executions_.front()->held_bytes();
  bytes_ -= bytes;
  totals_->recent.release(tenant_, {.count = 1, .bytes = bytes});
  executions_.pop_front();
}

std::shared_ptr<Execution> RecentExecutions::find(std::uint64_t id) const {
  const auto found = std::ranges::find(executions_, id, [](const auto& execution) { return execution->id(); });
  return found == executions_.end() ? nullptr : *found;
}

}  // namespace cove::sandbox
