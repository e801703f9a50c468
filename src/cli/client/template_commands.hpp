#pragma once

#include "cli/client/client_options.hpp"

namespace cove::cli {

// template build, list, show, log, delete. 0: success; 1: the server refused or did not answer, or the build failed.
void add_template_commands(App& app, Commands& commands);

}  // namespace cove::cli
