#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// create, ls, exec, vars, interrupt, restart, rm below `kernel`.
void add_kernel_commands(CLI::App& app, Commands& commands);

}  // namespace cove::cli
