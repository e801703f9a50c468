#pragma once

#include "cli/command.hpp"
#include "cli/run/run_options.hpp"

namespace cove::cli {

// `cove run`. Returns the exit status; errors of our own have been printed and are 125 (126 and 127 as in a shell).
int run_command(const RunOptions& options);

// The subcommand; usage errors are 125.
void add_run_command(App& app, Commands& commands);

}  // namespace cove::cli
