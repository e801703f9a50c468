#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// exec, shell, ps, logs. exec and shell return the command's own status, 124 after a timeout and 125 when Cove failed.
void add_process_commands(App& app, Commands& commands);

}  // namespace cove::cli
