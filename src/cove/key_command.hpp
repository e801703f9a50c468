#pragma once

#include <string>

namespace CLI {
class App;
}

namespace cove::cli {

enum class KeyAction { unsaid, create, list, revoke };

// The raw texts CLI11 fills.
struct KeyArguments {
  KeyAction action = KeyAction::unsaid;
  std::string id;
  std::string tenant;
  std::string max_sandboxes;
  std::string max_memory;
  std::string executions_per_minute;
  std::string concurrent_executions;
  std::string note;
  bool operates = false;
  std::string state_dir;  // empty: the default one
  bool json = false;
};

void describe(CLI::App& command, KeyArguments& arguments);

// `cove key …`. 0: done; 1: it could not be done; 2: it makes no sense. The database is that of the server in the same
// state directory, running or not. As root with a directory that belongs to somebody else, it becomes that user first.
int key_command(const KeyArguments& arguments);
// A command line that makes no sense: says so, and returns 2.
int refuse_key_command(const KeyArguments& arguments, const std::string& message);

}  // namespace cove::cli
