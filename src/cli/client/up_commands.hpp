#pragma once

#include "cli/command.hpp"

namespace cove::cli {

// `up` and `down`: a sandbox in the shape that clients of another system expect, with ports of its own.
void add_up_commands(App& app, Commands& commands);

}  // namespace cove::cli
