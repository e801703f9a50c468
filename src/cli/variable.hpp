#pragma once

#include <string>

#include "cli/arguments.hpp"

namespace cove::cli {

// An option that a variable of the environment can set too. The variable is read now, before the command line is, so
// that the flag wins wherever it is given, even where commands share `value`. An empty variable counts as none.
Option* add_option_with_variable(App& command, const std::string& name, std::string& value, const std::string& help,
                                 const char* variable);

}  // namespace cove::cli
