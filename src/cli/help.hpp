#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"

namespace cove::cli {

// Gives `cove --help` its groups: what is used every day first, compatibility last.
void group_commands(App& app);

// What to say of the first word that no command has, with the command that was probably meant; nothing when every word
// that should name a command does.
std::optional<std::string> unknown_command(const App& app, const Words& words);

// The command that `words` lead to, if it only has subcommands and none is named: its help is what is wanted.
const App* command_without_verb(const App& app, const Words& words);

}  // namespace cove::cli
