#pragma once

#include <string>

#include "base/unique_fd.hpp"
#include "wire/supervisor_messages.hpp"

namespace cove::builder {

// One request about templates. What comes of it is written to `answer`, a line each: `language NAME`, `installed
// PACKAGE VERSION`, `kernels`, `size BYTES`, and then `done` or `failed REASON`. Whoever reads it and goes away cancels
// the request.
struct Job {
  wire::SupervisorRequest request;
  std::string state_dir;
  UniqueFd answer;
  UniqueFd log;  // where packages' own words go
};

// In a process of its own, forked for this: has everything of its parent's except `job` taken away. Returns the exit
// status.
int work(Job job);

}  // namespace cove::builder
