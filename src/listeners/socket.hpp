#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "config/config.hpp"

namespace cove::listeners {

// A socket that listens on `endpoint`. While somebody else holds the port, blocks for so long. Errc::conflict when it
// is still taken then.
Result<UniqueFd> listen_on(const config::Endpoint& endpoint, std::chrono::milliseconds patience);
// The same for each of these, whose ports become those that they have.
Result<std::vector<UniqueFd>> listen_on_all(std::vector<config::SandboxListener>& listeners,
                                            std::chrono::milliseconds patience);
// The first of them, if any, that is not loopback.
std::optional<config::Endpoint> reachable_from_elsewhere(const config::Endpoint& main,
                                                         const std::vector<config::SandboxListener>& listeners);
// `endpoint` with the port that the system chose for port 0.
config::Endpoint bound_to(int listener, config::Endpoint endpoint);

}  // namespace cove::listeners
