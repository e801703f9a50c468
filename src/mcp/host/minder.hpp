#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::mcp::host {

// A program of the operator's choice. There is no shell.
struct Command {
  std::vector<std::string> argv;         // the first is looked for along the PATH of `environment`
  std::vector<std::string> environment;  // "NAME=value": all it gets
  std::string directory = "/";
};

// What is left of it to whoever wants to talk to it. It lives as long as `control` is open somewhere.
struct Minded {
  UniqueFd input;
  UniqueFd output;
  UniqueFd errors;
  UniqueFd control;   // write 'T' or 'K': SIGTERM to the program, SIGKILL to its process group; then one `int` comes:
                      // how it ended, as wait(2) has it, or -1 - errno if it could not be started
  pid_t minder = -1;  // a child of the caller
};

// Starts it with a process of its own that minds it: whoever is to talk to it need neither be its parent nor be able to
// send it signals. `drop` runs first in that process; false ends it. For callers with a single thread.
Result<Minded> start(const Command& command, const std::function<bool()>& drop);

}  // namespace cove::mcp::host
