#pragma once

#include <string>

#include "cli/client/client_options.hpp"

namespace cove::cli {

// `cove mcp`: the MCP server that clients start as a program and speak to over its pipes.
void add_mcp_command(CLI::App& app, Commands& commands);

// What `cove mcp config` prints: how a client is told of us.
struct McpConfig {
  std::string client;  // "claude-desktop", "claude-code", "cursor", "vscode"
  std::string program;
  Words arguments;  // of the program
  std::string key;  // for its environment: command lines are seen by everybody
};
// The client's own file as JSON. Errc::invalid for a client we do not know.
Result<boost::json::object> mcp_config(const McpConfig& config);
// For all of them, with where each belongs.
std::string mcp_configs(McpConfig config);

}  // namespace cove::cli
