#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <set>

#include "base/result.hpp"

namespace cove::sys {

// A destination that this network namespace takes for its own (`local`, on the loopback device), or one that is
// excepted from such a destination, and has no route then.
struct LocalRoute {
  enum class Kind : std::uint8_t { local, excepted };
  std::uint8_t family = 0;  // AF_INET or AF_INET6
  std::uint8_t prefix = 0;
  Kind kind = Kind::local;
  std::array<std::uint8_t, 16> address = {};  // of IPv4 the first four

  auto operator<=>(const LocalRoute&) const = default;
};

// The routes that set_local_routes() has made in the caller's network namespace.
Result<std::set<LocalRoute>> local_routes();
Result<> add_local_route(const LocalRoute& route);
Result<> remove_local_route(const LocalRoute& route);

}  // namespace cove::sys
