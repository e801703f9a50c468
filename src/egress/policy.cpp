#include "egress/policy.hpp"

#include <algorithm>

#include "outbound/addresses.hpp"

namespace cove::egress {
namespace {

namespace ip = boost::asio::ip;

Decision allowed(std::string rule) {
  return Decision{.verdict = Verdict::allowed, .rule = std::move(rule)};
}

Decision denied(std::string rule) {
  return Decision{.verdict = Verdict::denied, .rule = std::move(rule)};
}

const Target* find_network(const std::vector<Target>& targets, const ip::address& address, std::uint16_t port) {
  const auto found = std::ranges::find_if(targets, [&](const Target& target) {
    return target.kind == Target::Kind::network && target.network.contains(address) && target.matches_port(port);
  });
  return found == targets.end() ? nullptr : &*found;
}

// An IPv4 address is judged as one in whatever form it comes.
ip::address plain(const ip::address& address) {
  return address.is_v6() && address.to_v6().is_v4_mapped()
             ? ip::address(ip::make_address_v4(ip::v4_mapped, address.to_v6()))
             : address;
}

// Nothing if the address may be dialled without being listed.
std::string_view why_not_public(const ip::address& address) {
  if (!outbound::is_public(address)) return "private address";
  return outbound::is_own(address) ? "address of this machine" : "";
}

}  // namespace

Decision decide_name(const Policy& policy, std::string_view name, std::optional<std::uint16_t> port) {
  if (policy.mode == Mode::none && !policy.learn) return denied("mode none");
  for (const auto& target : policy.deny) {
    // Without a port only what is denied on every port is denied.
    if (target.matches_name(name) && (port ? target.matches_port(*port) : target.ports.empty()))
      return denied("deny " + text_of(target));
  }
  for (const auto& target : policy.allow) {
    if (target.matches_name(name) && (!port || target.matches_port(*port))) return allowed(text_of(target));
  }
  if (policy.mode == Mode::open) return allowed("mode public");
  return policy.learn ? allowed("learn") : denied("default");
}

Decision decide_address(const Policy& policy, const ip::address& given, std::uint16_t port) {
  const auto address = plain(given);
  if (policy.mode == Mode::none && !policy.learn) return denied("mode none");
  if (const auto* target = find_network(policy.deny, address, port)) return denied("deny " + text_of(*target));
  if (const auto* target = find_network(policy.allow, address, port)) return allowed(text_of(*target));
  if (policy.mode != Mode::open && !policy.learn) return denied("default");
  if (const auto why = why_not_public(address); !why.empty()) return denied(std::string(why));
  return allowed(policy.mode == Mode::open ? "mode public" : "learn");
}

Decision decide_resolved(const Policy& policy, const ip::address& given, std::uint16_t port) {
  const auto address = plain(given);
  if (const auto* target = find_network(policy.deny, address, port)) return denied("deny " + text_of(*target));
  if (const auto* target = find_network(policy.allow, address, port)) return allowed(text_of(*target));
  if (const auto why = why_not_public(address); !why.empty()) return denied(std::string(why));
  return allowed("public address");
}

std::vector<std::string> private_targets(const Policy& policy) {
  const auto open = outbound::public_networks();
  std::vector<std::string> found;
  for (const auto& target : policy.allow) {
    if (target.kind != Target::Kind::network) continue;
    const bool inside =
        std::ranges::any_of(open, [&](const Network& network) { return network.contains(target.network); });
    if (!inside || outbound::has_own(target.network)) found.push_back(text_of(target));
  }
  return found;
}

}  // namespace cove::egress
