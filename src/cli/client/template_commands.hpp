#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// template build, list, show, log, delete. 0: done; 1: the server said no, could not be asked, or the build failed.
void add_template_commands(CLI::App& app, Commands& commands);

}  // namespace cove::cli
