#include "sandbox/sandbox_context.hpp"

namespace cove::sandbox {

// Without keys everybody is one tenant.
std::uint32_t ZygoteGroups::of(const std::string& tenant) {
  if (sharing_ == Sharing::everyone || tenant.empty() || tenant == kDefaultTenant) return 0;
  return numbers_.emplace(tenant, static_cast<std::uint32_t>(numbers_.size() + 1)).first->second;
}

}  // namespace cove::sandbox
