#include "network/requested.hpp"

#include <algorithm>

namespace cove::network {

Result<> may_have(const sandbox::Core& core, const Principal& principal, const egress::Policy& policy) {
  if (core.authority.operates(principal)) return {};
  const auto config = core.config();
  for (const auto& target : egress::private_targets(policy)) {
    if (std::ranges::find(config->network.reach, target) != config->network.reach.end()) continue;
    return fail(Errc::denied,
                fmt::format("network.allow: {} is a private address: only an operator's key, or network.reach in the "
                            "server's configuration, can allow it",
                            target));
  }
  return {};
}

Result<egress::Policy> requested_policy(const sandbox::Core& core, const Principal& principal,
                                        const boost::json::value& requested) {
  COVE_TRY(auto policy, egress::parse_policy(requested, "network"));
  if (!policy.headers.empty()) return fail(Errc::unsupported, "network.headers: headers cannot be added yet");
  COVE_CHECK(may_have(core, principal, policy));
  return policy;
}

std::string text_of(const egress::Policy& policy) {
  return boost::json::serialize(egress::to_json(policy, egress::Secrets::shown));
}

}  // namespace cove::network
