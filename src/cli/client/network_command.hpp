#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// network: the way out of a sandbox, shown and changed, and what was decided.
void add_network_command(App& app, Commands& commands);

}  // namespace cove::cli
