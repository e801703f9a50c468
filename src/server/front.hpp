#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "config/config.hpp"
#include "keeper/keeper.hpp"

namespace cove::server {

// A listener that serves one sandbox.
struct SandboxSocket {
  UniqueFd fd;
  config::Endpoint endpoint;
  std::string name;
};

// Everything the front gets from the supervisor; it opens nothing else on the host.
struct FrontOptions {
  config::Config config;
  config::LoadInput reload_from;  // the sources to reload, except for the file, which the supervisor sends
  keeper::Enforcement enforcement;
  UniqueFd listener;
  UniqueFd keeper;        // the socket to the first keeper
  UniqueFd supervisor;    // brings new keepers and configurations
  UniqueFd log;           // for log lines
  UniqueFd files;         // the directory of stored files; empty: `files` in `directory`
  UniqueFd egress;        // the socket to the first egress process
  std::string directory;  // for the store and the control sockets
  bool needs_keys = false;
  std::string token_keys = {};  // a JWK set, if tokens are accepted
  std::string own_key = {};     // valid besides those of the store; "": none
  std::vector<SandboxSocket> sandbox_listeners = {};
  std::chrono::milliseconds leave_after{0};  // exits after this long without clients and sandboxes; 0: never
};

// The unprivileged part of `cove serve`: serves until SIGTERM, then drains. Returns the exit status.
int run_front(FrontOptions options);

}  // namespace cove::server
