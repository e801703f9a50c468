#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// exec, shell, ps, logs. exec and shell return the command's own status, 124 when its time was up and 125 when Cove
// itself failed.
void add_process_commands(CLI::App& app, Commands& commands);

}  // namespace cove::cli
