#include "sys/way_rules.hpp"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cstring>
#include <optional>
#include <span>

#include "sys/netlink.hpp"

namespace cove::sys {
namespace {

// Before the kernel's own rule for the main table, and after that for the local one.
constexpr std::uint32_t kOpeningPriority = 100, kWallPriority = 1000;

std::uint32_t priority_of(WayRule::Kind kind) {
  return kind == WayRule::Kind::opening ? kOpeningPriority : kWallPriority;
}

Result<> change_rule(const WayRule& rule, std::uint16_t type, std::uint16_t flags, std::string_view what) {
  COVE_TRY(auto socket, NetlinkSocket::open(NETLINK_ROUTE));
  fib_rule_hdr header{};
  header.family = rule.family;
  header.dst_len = rule.prefix;
  header.table = rule.kind == WayRule::Kind::wall ? RT_TABLE_UNSPEC : RT_TABLE_MAIN;
  header.action = rule.kind == WayRule::Kind::wall ? FR_ACT_UNREACHABLE : FR_ACT_TO_TBL;
  NetlinkMessage message;
  message.begin(type, static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags), header);
  message.put_u32(FRA_PRIORITY, priority_of(rule.kind));
  const std::uint8_t ours = kMadeByUs;
  message.put(FRA_PROTOCOL, std::as_bytes(std::span(&ours, 1)));
  if (rule.prefix > 0) message.put(FRA_DST, std::as_bytes(std::span(rule.address)).first(address_size(rule.family)));
  if (rule.protocol != 0) message.put(FRA_IP_PROTO, std::as_bytes(std::span(&rule.protocol, 1)));
  if (rule.last_port != 0) {
    const fib_rule_port_range ports{.start = rule.first_port, .end = rule.last_port};
    message.put(FRA_DPORT_RANGE, std::as_bytes(std::span(&ports, 1)));
  }
  return socket.transact(message, what);
}

std::optional<WayRule> parse_rule(std::span<const std::byte> payload) {
  if (payload.size() < sizeof(fib_rule_hdr)) return std::nullopt;
  fib_rule_hdr header{};
  std::memcpy(&header, payload.data(), sizeof header);
  WayRule rule{.family = header.family, .prefix = header.dst_len};
  bool ours = false;
  auto rest = static_cast<unsigned>(payload.size() - NLMSG_ALIGN(sizeof header));
  for (const auto* one = reinterpret_cast<const rtattr*>(payload.data() + NLMSG_ALIGN(sizeof header));
       RTA_OK(one, rest); one = RTA_NEXT(one, rest)) {
    const auto* data = static_cast<const std::uint8_t*>(RTA_DATA(one));
    if (one->rta_type == FRA_PROTOCOL) ours = *data == kMadeByUs;
    if (one->rta_type == FRA_IP_PROTO) rule.protocol = *data;
    if (one->rta_type == FRA_DST && RTA_PAYLOAD(one) == address_size(rule.family))
      std::memcpy(rule.address.data(), data, RTA_PAYLOAD(one));
    if (one->rta_type == FRA_PRIORITY) {
      std::uint32_t priority = 0;
      std::memcpy(&priority, data, sizeof priority);
      rule.kind = priority == kOpeningPriority ? WayRule::Kind::opening : WayRule::Kind::wall;
    }
    if (one->rta_type == FRA_DPORT_RANGE) {
      fib_rule_port_range ports{};
      std::memcpy(&ports, data, sizeof ports);
      rule.first_port = ports.start;
      rule.last_port = ports.end;
    }
  }
  return ours ? std::optional(rule) : std::nullopt;
}

}  // namespace

Result<std::set<WayRule>> way_rules() {
  COVE_TRY(auto socket, NetlinkSocket::open(NETLINK_ROUTE));
  std::set<WayRule> found;
  for (const auto family : {AF_INET, AF_INET6}) {
    fib_rule_hdr header{};
    header.family = static_cast<unsigned char>(family);
    NetlinkMessage message;
    message.begin(RTM_GETRULE, NLM_F_REQUEST | NLM_F_DUMP, header);
    const auto dumped = socket.dump(message, [&](std::span<const std::byte> payload) {
      if (const auto rule = parse_rule(payload)) found.insert(*rule);
    });
    if (!dumped && family == AF_INET) return tl::unexpected<Error>(dumped.error());  // a kernel may have no IPv6
  }
  return found;
}

Result<> add_way_rule(const WayRule& rule) {
  return change_rule(rule, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, "add a routing rule in the sandbox");
}

Result<> remove_way_rule(const WayRule& rule) {
  return change_rule(rule, RTM_DELRULE, 0, "remove a routing rule in the sandbox");
}

}  // namespace cove::sys
