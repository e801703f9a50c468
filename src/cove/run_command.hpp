#pragma once

#include "cove/run_options.hpp"

namespace cove::cli {

// `cove run`. Returns the exit status; errors of our own have been printed and are 125 (126 and 127 as in a shell).
int run_command(const RunOptions& options);

}  // namespace cove::cli
