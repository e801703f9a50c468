#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/mcp/mcp_command.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;

struct KnownClient {
  std::string_view name;
  std::string_view title;
  std::string_view file;     // where its configuration belongs
  std::string_view servers;  // the member that lists servers
  bool says_type = false;
};
constexpr std::array kClients{
    KnownClient{"claude-desktop", "Claude Desktop", "claude_desktop_config.json (Settings, Developer, Edit Config)",
                "mcpServers"},
    KnownClient{"claude-code", "Claude Code", ".mcp.json of a project", "mcpServers", true},
    KnownClient{"cursor", "Cursor", "~/.cursor/mcp.json, or .cursor/mcp.json of a project", "mcpServers"},
    KnownClient{"vscode", "VS Code", ".vscode/mcp.json of a project", "servers", true},
};

std::string shell_word(const std::string& word) {
  const bool plain = !word.empty() && std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_./:=,@%+").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

Result<json::object> mcp_config(const McpConfig& config) {
  const auto* client = std::ranges::find(kClients, config.client, &KnownClient::name);
  if (client == kClients.end()) {
    std::string names;
    for (const auto& one : kClients) names += fmt::format("{}{}", names.empty() ? "" : ", ", one.name);
    return fail(Errc::invalid, fmt::format("--client: '{}' is not one of {}", config.client, names));
  }
  json::object server;
  if (client->says_type) server["type"] = "stdio";
  server["command"] = config.program;
  server["args"] = json::array(config.arguments.begin(), config.arguments.end());
  if (!config.key.empty()) server["env"] = {{"COVE_API_KEY", config.key}};
  return json::object{{client->servers, json::object{{"cove", std::move(server)}}}};
}

std::string mcp_configs(McpConfig config) {
  std::string out;
  for (const auto& client : kClients) {
    config.client = client.name;
    out += fmt::format("{}: {}\n{}\n\n", client.title, client.file, pretty(*mcp_config(config)));
    if (client.name != "claude-code") continue;
    out += "  or: claude mcp add cove ";
    if (!config.key.empty()) out += "--env COVE_API_KEY=KEY ";
    out += "-- " + shell_word(config.program);
    for (const auto& word : config.arguments) out += " " + shell_word(word);
    out += "\n\n";
  }
  out.erase(out.size() - 2);
  return out;
}

}  // namespace cove::cli
