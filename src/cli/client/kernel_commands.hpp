#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// `kernel` create, ls, exec, vars, interrupt, restart, rm.
void add_kernel_commands(App& app, Commands& commands);

}  // namespace cove::cli
