#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <set>

#include "base/result.hpp"

namespace cove::sys {

// Which lookups of routes are made at all. Routes know no ports; these do, so that a connection to a port that is not
// open fails where it is made, at once and as unreachable.
struct WayRule {
  enum class Kind : std::uint8_t {
    opening,  // to these addresses and ports: routes are looked up
    wall,     // the rest: unreachable. The loopback addresses have a table before all of these
  };
  Kind kind = Kind::opening;
  std::uint8_t family = 0;  // AF_INET or AF_INET6
  std::uint8_t prefix = 0;
  std::uint8_t protocol = 0;     // of an opening
  std::uint16_t first_port = 0;  // both 0: any
  std::uint16_t last_port = 0;
  std::array<std::uint8_t, 16> address = {};

  auto operator<=>(const WayRule&) const = default;
};

// The rules that were made here, in the caller's network namespace.
Result<std::set<WayRule>> way_rules();
Result<> add_way_rule(const WayRule& rule);
Result<> remove_way_rule(const WayRule& rule);

}  // namespace cove::sys
