#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// run, ls, get, cancel below `executions`; and `install`.
void add_execution_commands(CLI::App& app, Commands& commands);

}  // namespace cove::cli
