#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// journal: what was done in a sandbox. replay: the same again, in a fresh one.
void add_journal_commands(App& app, Commands& commands);

}  // namespace cove::cli
