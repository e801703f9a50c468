#pragma once

#include <string>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cove::cli {

// An option that a variable of the environment can set too. The variable is read now, before the command line is, so
// that the flag wins wherever it is given, even where commands share `value`. An empty variable counts as none.
CLI::Option* add_option_with_variable(CLI::App& command, const std::string& name, std::string& value,
                                      const std::string& help, const char* variable);

}  // namespace cove::cli
