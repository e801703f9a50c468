#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// `executions` submit, ls, get, cancel; and `install`.
void add_execution_commands(App& app, Commands& commands);

}  // namespace cove::cli
