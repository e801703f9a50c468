#pragma once

#include <string>

#include "cove/config_flags.hpp"

namespace cove::cli {

// `cove serve`. 0: stopped as asked; 1: could not serve; 2: the configuration makes no sense.
int serve_command(const ConfigFlags& flags);

// `cove routes`: every address the server answers, with its method and who may ask.
int routes_command(bool json);

}  // namespace cove::cli
