#pragma once

#include "cove/client_options.hpp"

namespace cove::cli {

// run, ls, get, cancel below `executions`; and `install`.
void add_execution_commands(CLI::App& app, ClientCommands& commands);

}  // namespace cove::cli
