#pragma once

#include <string>

#include "cli/client/client_options.hpp"

namespace cove::cli {

// `cove completion bash|zsh|fish`: a script on standard output. It is generated from `app`, so it is
// always complete; it asks the server for ids (cove ls -q and the like) when it completes one.
void add_completion_command(App& app, Commands& commands);

std::string bash_completion(const App& app);
std::string zsh_completion(const App& app);
std::string fish_completion(const App& app);

}  // namespace cove::cli
