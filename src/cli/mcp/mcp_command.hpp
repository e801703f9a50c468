#pragma once

#include <string>

#include "cli/client/client_options.hpp"

namespace cove::cli {

// `cove mcp`: the MCP server that clients start as a program and talk to over pipes.
void add_mcp_command(App& app, Commands& commands);

// What `cove mcp config` prints: the settings for a client.
struct McpConfig {
  std::string client;  // "claude-desktop", "claude-code", "cursor", "vscode"
  std::string program;
  Words arguments;  // of the program
  std::string key;  // goes into the environment, since everybody can see command lines
};
// The client's settings file as JSON. Errc::invalid for an unknown client.
Result<boost::json::object> mcp_config(const McpConfig& config);
// The settings for all clients, with the file that each belongs in.
std::string mcp_configs(McpConfig config);

}  // namespace cove::cli
