#include "cli/variable.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace cove::cli {

// Not CLI11's own envname(): it reads the variables of every subcommand after the command line, whether that subcommand
// was called or not, and so overwrites flags of commands with the same `value`.
Option* add_option_with_variable(App& command, const std::string& name, std::string& value, const std::string& help,
                                 const char* variable) {
  const auto fallback = value.empty() ? "" : fmt::format(" (default {})", value);
  if (const char* set = std::getenv(variable); set != nullptr && *set != '\0') value = set;
  return command.add_option(name, value, fmt::format("{}{} [{}]", help, fallback, variable));
}

}  // namespace cove::cli
