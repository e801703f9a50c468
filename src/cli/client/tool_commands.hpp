#pragma once

#include "cli/command.hpp"

namespace cove::cli {

// `cove tools`: the MCP servers whose tools code in a sandbox may call.
void add_tool_commands(App& app, Commands& commands);

}  // namespace cove::cli
