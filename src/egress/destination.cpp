#include "egress/destination.hpp"

#include "egress/host_name.hpp"
#include "egress/port_groups.hpp"
#include "egress/sandbox_egress.hpp"

namespace cove::egress {
namespace {

namespace ip = boost::asio::ip;

bool stands_for_a_name(const ip::address& address) {
  return address.is_v4() && (address.to_v4().to_uint() & 0xfffe0000U) == kSyntheticBase;
}

bool nowhere(Flow& flow, std::string rule) {
  flow.decision = {.verdict = Verdict::denied, .rule = std::move(rule)};
  return false;
}

}  // namespace

bool set_destination(SandboxEgress& egress, Flow& flow, const ip::address& given, std::uint16_t port) {
  const auto address = given.is_v6() && given.to_v6().is_v4_mapped()
                           ? ip::address(ip::make_address_v4(ip::v4_mapped, given.to_v6()))
                           : given;
  flow.subject.port = port;
  flow.subject.address = address;
  if (!stands_for_a_name(address)) {
    // Inside, loopback is the sandbox's own. Who gets here with it asked for no other host.
    return address.is_loopback() || address.is_unspecified() ? nowhere(flow, "unknown destination") : true;
  }
  const auto name = egress.names.name_of(address.to_v4());
  if (!name) return nowhere(flow, "unknown destination");
  flow.subject.name = *name;
  flow.subject.address.reset();
  flow.use = egress.names.use(address.to_v4());
  return true;
}

bool set_destination(SandboxEgress& egress, Flow& flow, std::string_view host, std::uint16_t port) {
  flow.subject.port = port;
  if (const auto name = canonical_name(host)) {
    flow.subject.name = *name;
    return *name == "localhost" || name->ends_with(".localhost") ? nowhere(flow, "unknown destination") : true;
  }
  boost::system::error_code failed;
  const auto address = ip::make_address(std::string(host), failed);
  // inet_aton(3) takes more spellings than one; this takes the one that it writes itself.
  if (failed || (address.is_v4() && address.to_string() != host)) {
    flow.subject.name = shown_name(host);
    return nowhere(flow, "malformed host");
  }
  return set_destination(egress, flow, address, port);
}

}  // namespace cove::egress
