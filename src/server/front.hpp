#pragma once

#include <chrono>
#include <string>

#include "base/unique_fd.hpp"
#include "config/config.hpp"
#include "keeper/keeper.hpp"

namespace cove::server {

// What the front is given by whoever started it. Everything else of the host it does without.
struct FrontOptions {
  config::Config config;
  config::LoadInput reload_from;  // what to load again, with the file as the supervisor sends it then
  keeper::Enforcement enforcement;
  UniqueFd listener;
  UniqueFd keeper;        // the line to the first keeper
  UniqueFd supervisor;    // on which further keepers and configurations come
  UniqueFd log;           // lines go here
  UniqueFd files;         // the directory of kept files, ours; empty: `files` in `directory`
  std::string directory;  // for the store and the control sockets, ours
  bool needs_keys = false;
  std::string token_keys = {};               // a JWK set, when tokens open the server as well
  std::string own_key = {};                  // as those of the store; "": none
  std::chrono::milliseconds leave_after{0};  // ends when it was alone for so long; 0: never
};

// The unprivileged part of `cove serve`: serves until SIGTERM, then lets running work end. Returns the exit status.
int run_front(FrontOptions options);

}  // namespace cove::server
