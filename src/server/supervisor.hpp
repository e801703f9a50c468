#pragma once

#include "config/config.hpp"

namespace cove::server {

// The privileged part of `cove serve`, small enough to read in a minute: holds the lock on the state directory, starts
// a keeper and a front, starts again what died, and passes signals on. It parses nothing that a client sent. Sandboxes
// outlive all three: the next start with the same state directory finds them. Returns the exit status.
int run_supervisor(const config::Config& config, const config::LoadInput& reload_from);

}  // namespace cove::server
