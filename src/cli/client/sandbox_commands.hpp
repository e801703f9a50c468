#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// create, ls, inspect, touch, pause, resume, rm. 0: done; 1: the server said no, or could not be asked.
void add_sandbox_commands(CLI::App& app, Commands& commands);

}  // namespace cove::cli
