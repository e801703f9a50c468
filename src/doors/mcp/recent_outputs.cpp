#include "doors/mcp/recent_outputs.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.hpp"

namespace cove::doors::mcp {
namespace {

using Clock = std::chrono::steady_clock;

std::size_t size_of(const RecentOutputs::Output& output) {
  return output.out.size() + output.err.size();
}

}  // namespace

std::string RecentOutputs::new_id() {
  return fmt::format("{:016x}{:016x}", random_number<std::uint64_t>(), random_number<std::uint64_t>());
}

void RecentOutputs::keep(Output output) {
  output.at = Clock::now();
  const auto tenant = output.tenant;
  bytes_ += size_of(output);
  outputs_.push_back(std::make_shared<const Output>(std::move(output)));
  make_room(tenant);
}

std::shared_ptr<const RecentOutputs::Output> RecentOutputs::find(std::string_view tenant, std::string_view id) {
  make_room(tenant);
  const auto found = std::ranges::find(outputs_, id, [](const auto& output) -> std::string_view { return output->id; });
  return found == outputs_.end() || (*found)->tenant != tenant ? nullptr : *found;
}

void RecentOutputs::make_room(std::string_view tenant) {
  while (!outputs_.empty() && (bytes_ > limits_.bytes || outputs_.size() > limits_.count ||
                               outputs_.front()->at + limits_.age < Clock::now()))
    drop(outputs_.begin());
  std::size_t held = 0;
  for (const auto& output : outputs_) held += output->tenant == tenant ? size_of(*output) : 0;
  while (held > limits_.tenant_bytes) {
    const auto oldest =
        std::ranges::find(outputs_, tenant, [](const auto& output) -> std::string_view { return output->tenant; });
    held -= size_of(**oldest);
    drop(oldest);
  }
}

void RecentOutputs::drop(std::deque<std::shared_ptr<const Output>>::iterator which) {
  bytes_ -= size_of(**which);
  outputs_.erase(which);
}

std::string execution_uri(std::string_view id, std::string_view stream) {
  return fmt::format("execution://{}/{}", id, stream);
}

}  // namespace cove::doors::mcp
