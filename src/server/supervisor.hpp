#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "config/config.hpp"

namespace cove::server {

// Settings of a server that one user runs for himself.
struct PrivateServer {
  std::string key;  // valid besides those of the store; without any key nobody is admitted
  // It exits after this long without clients and sandboxes.
  std::chrono::milliseconds leave_after{};
  // Called once, when the server accepts connections.
  std::function<void(const config::Endpoint&)> on_listening;
};

// The privileged part of `cove serve`, small enough to read in a minute: holds the lock on the state directory, starts
// a keeper and a front, starts again what died, and passes signals on. It parses nothing that a client sent. Sandboxes
// outlive all three: the next start with the same state directory finds them. Returns the exit status.
int run_supervisor(const config::Config& config, const config::LoadInput& reload_from, PrivateServer own = {});

}  // namespace cove::server
