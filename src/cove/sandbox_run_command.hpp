#pragma once

#include <optional>

#include "cove/client_options.hpp"

namespace cove::cli {

// The words of a `sandbox-run` command line: what follows `cove sandbox-run`, or everything when the program was called
// by a link of that name. None for any other command line.
std::optional<Words> sandbox_run_words(int argc, char** argv);

// `sandbox-run SCRIPT.py …`: calls the script's handler once, in a sandbox of its own; no server. Before any thread is
// made.
int sandbox_run_command(Words words);

}  // namespace cove::cli
