#include "sys/local_routes.hpp"

#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>

#include "sys/netlink.hpp"

namespace cove::sys {
namespace {

constexpr std::uint32_t kLoopback = 1;  // the first device of every network namespace

Result<> change_route(const LocalRoute& route, std::uint16_t type, std::uint16_t flags, std::string_view what) {
  COVE_TRY(auto socket, NetlinkSocket::open(NETLINK_ROUTE));
  const bool local = route.kind == LocalRoute::Kind::local;
  rtmsg header{};
  header.rtm_family = route.family;
  header.rtm_dst_len = route.prefix;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = kMadeByUs;
  header.rtm_scope = local ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE;
  // A lookup that meets `throw` goes on in the next table. There is nothing there: the network is unreachable.
  header.rtm_type = local ? RTN_LOCAL : RTN_THROW;
  NetlinkMessage message;
  message.begin(type, static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags), header);
  message.put(RTA_DST, std::as_bytes(std::span(route.address)).first(address_size(route.family)));
  if (local) message.put_u32(RTA_OIF, kLoopback);
  // Otherwise the destination is its own source, which the kernel looks for in another table.
  if (local && route.family == AF_INET) message.put_u32(RTA_PREFSRC, htonl(INADDR_LOOPBACK));
  return socket.transact(message, what);
}

std::optional<LocalRoute> parse_route(std::span<const std::byte> payload) {
  if (payload.size() < sizeof(rtmsg)) return std::nullopt;
  rtmsg header{};
  std::memcpy(&header, payload.data(), sizeof header);
  if (header.rtm_protocol != kMadeByUs || header.rtm_table != RT_TABLE_MAIN) return std::nullopt;
  LocalRoute route{.family = header.rtm_family,
                   .prefix = header.rtm_dst_len,
                   .kind = header.rtm_type == RTN_LOCAL ? LocalRoute::Kind::local : LocalRoute::Kind::excepted};
  auto rest = static_cast<unsigned>(payload.size() - NLMSG_ALIGN(sizeof header));
  for (const auto* one = reinterpret_cast<const rtattr*>(payload.data() + NLMSG_ALIGN(sizeof header));
       RTA_OK(one, rest); one = RTA_NEXT(one, rest)) {
    if (one->rta_type == RTA_DST && RTA_PAYLOAD(one) == address_size(route.family))
      std::memcpy(route.address.data(), RTA_DATA(one), RTA_PAYLOAD(one));
  }
  return route;
}

}  // namespace

Result<std::set<LocalRoute>> local_routes() {
  COVE_TRY(auto socket, NetlinkSocket::open(NETLINK_ROUTE));
  std::set<LocalRoute> found;
  for (const auto family : {AF_INET, AF_INET6}) {
    rtmsg header{};
    header.rtm_family = static_cast<unsigned char>(family);
    NetlinkMessage message;
    message.begin(RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP, header);
    const auto dumped = socket.dump(message, [&](std::span<const std::byte> payload) {
      if (const auto route = parse_route(payload)) found.insert(*route);
    });
    // A kernel without IPv6 has none of its routes.
    if (!dumped && family == AF_INET) return tl::unexpected<Error>(dumped.error());
  }
  return found;
}

Result<> add_local_route(const LocalRoute& route) {
  return change_route(route, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, "add a route in the sandbox");
}

Result<> remove_local_route(const LocalRoute& route) {
  return change_route(route, RTM_DELROUTE, 0, "remove a route in the sandbox");
}

}  // namespace cove::sys
