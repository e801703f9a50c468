#include "network/requested.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace cove::network {
namespace {

std::string_view text_in(const boost::json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

// Nothing: they are malformed, and no rule has them.
std::optional<std::vector<egress::PortRange>> ports_in(const boost::json::object& object) {
  const auto text = text_in(object, "ports");
  if (text.empty()) return std::vector<egress::PortRange>();
  auto ports = egress::parse_ports(text);
  return ports ? std::optional(std::move(*ports)) : std::nullopt;
}

}  // namespace

Result<> may_have(const sandbox::Core& core, const Principal& principal, const egress::Policy& policy) {
  if (core.authority.operates(principal)) return {};
  const auto config = core.config();
  for (const auto& target : egress::private_targets(policy)) {
    if (std::ranges::find(config->network.reach, target) != config->network.reach.end()) continue;
    return fail(Errc::denied, fmt::format("network.allow: {} is a private address, or has one of this machine's: only "
                                          "an operator's key, or network.reach in the "
                                          "server's configuration, can allow it",
                                          target));
  }
  return {};
}

Result<egress::Policy> requested_policy(const sandbox::Core& core, const Principal& principal,
                                        boost::json::value requested, const egress::Policy& before) {
  auto* object = requested.if_object();
  auto* headers = object != nullptr ? object->if_contains("headers") : nullptr;
  if (headers != nullptr && headers->is_array()) {
    for (auto& one : headers->get_array()) {
      if (!one.is_object() || one.get_object().contains("value")) continue;
      auto& entry = one.get_object();
      const auto same = std::ranges::find_if(before.headers, [&](const auto& rule) {
        return text_in(entry, "host") == rule.name && text_in(entry, "header") == rule.header &&
               ports_in(entry) == rule.ports;
      });
      if (same != before.headers.end()) entry["value"] = same->value;
    }
  }
  COVE_TRY(auto policy, egress::parse_policy(requested, "network"));
  COVE_CHECK(may_have(core, principal, policy));
  return policy;
}

std::string text_of(const egress::Policy& policy) {
  return boost::json::serialize(egress::to_json(policy, egress::Secrets::shown));
}

}  // namespace cove::network
