#pragma once

#include "cove/client_options.hpp"

namespace cove::cli {

// create, ls, exec, vars, interrupt, restart, rm below `kernel`.
void add_kernel_commands(CLI::App& app, ClientCommands& commands);

}  // namespace cove::cli
