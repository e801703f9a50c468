#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cove::cli {

using Words = std::vector<std::string>;

// The words behind --; none when there was no --.
using AfterDashes = std::optional<Words>;

// One subcommand: `app` describes it, `run` returns the exit status.
struct Command {
  CLI::App* app;
  std::function<int(const AfterDashes& after)> run;
  // Reports a usage error and returns the exit status, for a command that has other ones than refuse_usage().
  std::function<int(const std::string& message, bool as_json)> refuse = {};
};
using Commands = std::vector<Command>;

// Reports a usage error in the form that was asked for. Returns 125.
int refuse_usage(const std::string& message, bool as_json);
// {"exit_code": …, "error": …} for what never ran.
std::string json_of_trouble(int status, const std::string& message);

}  // namespace cove::cli
