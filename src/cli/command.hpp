#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.hpp"

namespace cove::cli {

// The words after --; none when there is no --.
using AfterDashes = std::optional<Words>;

// One subcommand: `app` describes it, `run` returns the exit status.
struct Command {
  App* app;
  std::function<int(const AfterDashes& after)> run;
  // Reports a usage error and returns the exit status, for commands that do not use refuse_usage().
  std::function<int(const std::string& message, bool as_json)> refuse = {};
};
using Commands = std::vector<Command>;

// Reports a usage error, as JSON if asked to. Returns 125.
int refuse_usage(const std::string& message, bool as_json);
// {"exit_code": …, "error": …} for a program that was not run.
std::string json_of_error(int status, const std::string& message);

}  // namespace cove::cli
