#pragma once

#include "cli/command.hpp"

namespace cove::cli {

// `sandbox-run SCRIPT.py …`: calls the script's handler once, in a sandbox of its own; no server. Before any thread is
// made.
int sandbox_run_command(Words words);

}  // namespace cove::cli
