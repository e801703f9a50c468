#pragma once

#include <string>

#include "cli/client/client_options.hpp"

namespace cove::cli {

// `cove completion bash|zsh`: a script on standard output. Everything in it is read off `app` as it is, so that it
// cannot fall behind; sandbox ids are asked of the server (cove ls -q) when they are wanted.
void add_completion_command(CLI::App& app, Commands& commands);

std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);

}  // namespace cove::cli
