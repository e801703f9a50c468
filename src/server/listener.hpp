#pragma once

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "config/config.hpp"

namespace cove::server {

// A socket that listens on `endpoint`. While a previous server still holds the port, waits a few seconds for it.
Result<UniqueFd> listen_on(const config::Endpoint& endpoint);
// `endpoint` with the port that the system chose for port 0.
config::Endpoint bound_to(int listener, config::Endpoint endpoint);

}  // namespace cove::server
