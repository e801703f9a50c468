#include "egress/network_order.hpp"

#include <cstring>

#include "egress/port_groups.hpp"

namespace cove::egress {
namespace {

wire::NetworkTarget target_of(const Network& network, wire::NetworkKind kind, PortRange ports) {
  wire::NetworkTarget target{.family = static_cast<std::uint8_t>(network.address.is_v4() ? 4 : 6),
                             .prefix = static_cast<std::uint8_t>(network.prefix),
                             .kind = kind,
                             .first_port = ports.first,
                             .last_port = ports.last};
  const auto copy = [&](const auto& bytes) { std::memcpy(target.address.data(), bytes.data(), bytes.size()); };
  if (network.address.is_v4())
    copy(network.address.to_v4().to_bytes());
  else
    copy(network.address.to_v6().to_bytes());
  return target;
}

}  // namespace

Result<wire::NetworkOrder> network_order(const Policy& policy, wire::NetworkSockets sockets) {
  const auto plan = plan_network(policy);
  if (plan.openings.size() + plan.closed.size() > wire::kMaxNetworkTargets)
    return fail(Errc::over_limit,
                fmt::format("network: a policy may need at most {} routes", wire::kMaxNetworkTargets));
  wire::NetworkOrder order{.sockets = sockets,
                           .dns = plan.redirect_dns ? wire::NetworkDns::every_address : wire::NetworkDns::own_address};
  for (const auto& opening : plan.openings)
    order.targets[order.count++] = target_of(opening.network, wire::NetworkKind::opening, opening.ports);
  for (const auto& closed : plan.closed)
    order.targets[order.count++] = target_of(closed, wire::NetworkKind::closed, {});
  return order;
}

}  // namespace cove::egress
