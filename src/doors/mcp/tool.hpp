#pragma once

#include <boost/json.hpp>
#include <functional>
#include <string>
#include <vector>

#include "config/languages.hpp"
#include "doors/mcp/recent_outputs.hpp"
#include "doors/mcp/sessions.hpp"

namespace cove::doors::mcp {

// What every tool works with.
struct Workshop {
  Services& services;
  Sessions sessions;
  config::Languages languages;
  RecentOutputs outputs = {};
};

// One tool as clients see it, and what it does. Faults a model can act on are answers, not errors.
struct Tool {
  boost::json::object definition;  // name, title, description, inputSchema, outputSchema, annotations
  std::function<Task<cove::mcp::Or<>>(Workshop&, cove::mcp::Call&, boost::json::object arguments)> run;

  [[nodiscard]] std::string_view name() const { return definition.at("name").as_string(); }
};

std::vector<Tool> all_tools(const config::Languages& languages);
// In the other files.
Tool execute_tool(const config::Languages& languages);
Tool reset_tool(const config::Languages& languages);
Tool validate_tool(const config::Languages& languages);
Tool write_file_tool(const config::Languages& languages);
Tool read_file_tool(const config::Languages& languages);
Tool list_files_tool(const config::Languages& languages);
Tool delete_file_tool(const config::Languages& languages);

}  // namespace cove::doors::mcp
