#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// forward: a port of this machine leads to a server that runs in a sandbox.
void add_forward_command(App& app, Commands& commands);

}  // namespace cove::cli
