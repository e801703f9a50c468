#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "config/config.hpp"

namespace cove::server {

// A server that somebody started for himself alone.
struct PrivateServer {
  std::string key;  // opens it, besides those of the store; without one of either nobody is let in
  // It ends by itself when it has had neither a client nor a sandbox for so long.
  std::chrono::milliseconds leave_after{};
  // Told once, when it can be reached.
  std::function<void(const config::Endpoint&)> on_listening;
};

// The privileged part of `cove serve`, small enough to read in a minute: holds the lock on the state directory, starts
// a keeper and a front, starts again what died, and passes signals on. It parses nothing that a client sent. Sandboxes
// outlive all three: the next start with the same state directory finds them. Returns the exit status.
int run_supervisor(const config::Config& config, const config::LoadInput& reload_from, PrivateServer own = {});

}  // namespace cove::server
