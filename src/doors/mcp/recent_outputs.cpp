#include "doors/mcp/recent_outputs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/random_name.hpp"

namespace cove::doors::mcp {
namespace {

using Clock = std::chrono::steady_clock;

Amount amount_of(const RecentOutputs::Output& output) {
  return {.count = 1, .bytes = output.out.size() + output.err.size()};
}

}  // namespace

std::string RecentOutputs::new_id() {
  return random_name("");
}

void RecentOutputs::keep(Output output, const UsageBounds& bounds) {
  drop_old();
  output.at = Clock::now();
  const auto tenant = output.tenant;
  usage_.charge(tenant, amount_of(output));
  outputs_.push_back(std::make_shared<const Output>(std::move(output)));
  for (auto bound = usage_.passed(tenant, {}, bounds); bound != Bound::none;
       bound = usage_.passed(tenant, {}, bounds)) {
    const bool own = bound == Bound::tenant_count || bound == Bound::tenant_bytes;
    const auto loser = own ? tenant : usage_.largest_holder(bound);
    drop(std::ranges::find(outputs_, loser, [](const auto& one) { return one->tenant; }));
    ++evicted_;
  }
}

std::shared_ptr<const RecentOutputs::Output> RecentOutputs::find(std::string_view tenant, std::string_view id) {
  drop_old();
  const auto found = std::ranges::find(outputs_, id, [](const auto& output) -> std::string_view { return output->id; });
  return found == outputs_.end() || (*found)->tenant != tenant ? nullptr : *found;
}

void RecentOutputs::drop_old() {
  while (!outputs_.empty() && outputs_.front()->at + age_ < Clock::now()) drop(outputs_.begin());
}

void RecentOutputs::drop(Outputs::iterator which) {
  usage_.release((*which)->tenant, amount_of(**which));
  outputs_.erase(which);
}

std::string execution_uri(std::string_view id, std::string_view stream) {
  return fmt::format("execution://{}/{}", id, stream);
}

}  // namespace cove::doors::mcp
