#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// create, ls, inspect, touch, pause, resume, rm. 0: success; 1: the server refused, or did not answer.
void add_sandbox_commands(App& app, Commands& commands);

}  // namespace cove::cli
