#pragma once

#include <string>

#include "cli/admin/config_flags.hpp"
#include "cli/command.hpp"

namespace cove::cli {

// `cove serve`. 0: stopped as asked; 1: could not serve; 2: the configuration is invalid.
int serve_command(const ConfigFlags& flags);
void add_serve_command(App& app, Commands& commands);

// `cove routes`: every address the server answers, with its method and who may ask.
int routes_command(bool json);
void add_routes_command(App& app, Commands& commands);

}  // namespace cove::cli
