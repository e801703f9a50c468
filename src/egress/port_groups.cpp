#include "egress/port_groups.hpp"

#include <algorithm>
#include <array>

#include "outbound/addresses.hpp"

namespace cove::egress {
namespace {

namespace ip = boost::asio::ip;
using Ports = std::vector<PortRange>;

constexpr PortRange kEveryPort{.first = 1, .last = 65535};

// The ports of the rules for names, each list once, in the order of the policy.
std::vector<Ports> groups_of(const Policy& policy) {
  std::vector<Ports> groups;
  for (const auto& target : policy.allow) {
    if (target.kind != Target::Kind::network && std::ranges::find(groups, target.ports) == groups.end())
      groups.push_back(target.ports);
  }
  return groups;
}

bool is_open(const Policy& policy) {
  return policy.mode == Mode::open || policy.learn;
}

void add(std::vector<Opening>& openings, const Network& network, const Ports& ports) {
  if (ports.empty()) openings.push_back({.network = network, .ports = kEveryPort});
  for (const auto& range : ports) openings.push_back({.network = network, .ports = range});
}

Network block(std::size_t index) {
  const auto first = kSyntheticBase + static_cast<std::uint32_t>(index) * kBlockSize;
  return Network{.address = ip::address_v4(first), .prefix = kBlockPrefix};
}

// What belongs to the sandbox itself or to nobody, and is no way out even if a network that contains it is listed: its
// loopback, the range that stands for names, links, groups.
std::vector<Network> never_openings() {
  std::vector<Network> networks;
  for (const char* text : {"0.0.0.0/8", "127.0.0.0/8", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "::/127",
                           "::ffff:0:0/96", "fe80::/10", "ff00::/8"}) {
    const std::string_view whole = text;
    const auto slash = whole.find('/');
    networks.push_back({.address = ip::make_address(std::string(whole.substr(0, slash))),
                        .prefix = std::stoi(std::string(whole.substr(slash + 1)))});
  }
  return networks;
}

// Every port that some rule for names has.
Ports every_listed_port(const std::vector<Ports>& groups) {
  Ports all;
  for (const auto& ports : groups) {
    if (ports.empty()) return {};
    all.insert(all.end(), ports.begin(), ports.end());
  }
  merge_ports(all);
  return all;
}

}  // namespace

NetworkPlan plan_network(const Policy& policy) {
  NetworkPlan plan;
  if (policy.mode == Mode::none && !policy.learn) return plan;
  if (is_open(policy)) {
    plan.redirect_dns = true;
    plan.openings.push_back(
        {.network = {.address = ip::address_v4(kSyntheticBase), .prefix = 16}, .ports = kEveryPort});
    for (const auto& network : outbound::public_networks())
      plan.openings.push_back({.network = network, .ports = kEveryPort});
  } else {
    const auto groups = groups_of(policy);
    for (std::size_t i = 0; i < std::min(groups.size(), kMaxPortGroups); ++i) add(plan.openings, block(i), groups[i]);
    if (groups.size() > 1) add(plan.openings, block(kMixedBlock), every_listed_port(groups));
  }
  const auto never = never_openings();
  for (const auto& target : policy.allow) {
    if (target.kind != Target::Kind::network) continue;
    for (const auto& part : outbound::without(target.network, never)) add(plan.openings, part, target.ports);
  }
  for (const auto& target : policy.deny) {
    if (target.kind != Target::Kind::network || !target.ports.empty()) continue;
    for (const auto& part : outbound::without(target.network, never)) plan.closed.push_back(part);
  }
  return plan;
}

std::size_t block_of(const Policy& policy, std::string_view canonical_name) {
  if (is_open(policy)) return 0;
  const Ports* ports = nullptr;
  for (const auto& target : policy.allow) {
    if (!target.matches_name(canonical_name)) continue;
    if (ports != nullptr && *ports != target.ports) return kMixedBlock;
    ports = &target.ports;
  }
  if (ports == nullptr) return kMixedBlock;
  const auto groups = groups_of(policy);
  const auto found = static_cast<std::size_t>(std::ranges::find(groups, *ports) - groups.begin());
  return std::min(found, kMixedBlock);
}

}  // namespace cove::egress
