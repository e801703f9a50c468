#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstdint>
#include <memory>
#include <string_view>

#include "egress/flow.hpp"

namespace cove::egress {

class SandboxEgress;

// Says of a flow where it is meant to go. False: nowhere that egress knows; the flow's decision says why.

// An address that a program dialled: one of those that stand for names means the name. The sandbox's own loopback is
// nowhere.
bool set_destination(SandboxEgress& egress, Flow& flow, const boost::asio::ip::address& address, std::uint16_t port);
// A host as it was told to the proxy: a name, or an address in its one spelling.
bool set_destination(SandboxEgress& egress, Flow& flow, std::string_view host, std::uint16_t port);

}  // namespace cove::egress
