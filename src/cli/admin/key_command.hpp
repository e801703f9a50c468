#pragma once

#include <string>

#include "cli/command.hpp"

namespace cove::cli {

enum class KeyAction { none, create, list, revoke };

// The options as they were given, unchecked.
struct KeyArguments {
  KeyAction action = KeyAction::none;
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

// `cove key …`. 0: success; 1: failure; 2: usage error. The database is that of the server in the same
// state directory, running or not. As root with a directory of another user, it becomes that user first.
int key_command(const KeyArguments& arguments);
void add_key_command(App& app, Commands& commands);

}  // namespace cove::cli
