#pragma once

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "config/languages.hpp"
#include "doors/mcp/recent_outputs.hpp"
#include "doors/mcp/sessions.hpp"

namespace cove::doors::mcp {

// What tools work with.
struct ToolContext {
  Services& services;
  Sessions sessions;
  config::Languages languages;
  RecentOutputs outputs;
};

// Where the output of a run goes that begins now.
std::shared_ptr<RecentOutputs::Output> begin_output(ToolContext& context, const cove::mcp::Call& call);

// Whether a call may or must run as a task.
enum class TaskUse { forbidden, optional, required };

// How tools/list shows a tool to clients that do not read the old form: whole, without what a model does not need, or
// not at all. It can be called all the same.
enum class Listing { whole, brief, hidden };

// A tool: its definition and its function. Errors that a model can act on are answers with isError, not faults.
struct Tool {
  boost::json::object definition;  // name, title, description, inputSchema, outputSchema, annotations
  std::function<Task<cove::mcp::Or<>>(ToolContext&, cove::mcp::Call&, boost::json::object arguments)> run;
  bool makes_files = false;  // or deletes them, so the list of resources changes
  TaskUse tasks = TaskUse::forbidden;
  Listing listing = Listing::whole;
  // The time limit of a call, for tools that may run as tasks. Empty: always too long to wait for.
  std::function<std::chrono::milliseconds(const ToolContext&, const boost::json::object& arguments)> allowed = {};

  [[nodiscard]] std::string_view name() const { return definition.at("name").as_string(); }
};

// Names of the languages that sandboxes can run.
boost::json::array installed_languages(const ToolContext& context);

// For the end of a run: which connections its sandbox's policy refused since `begun`, and how to get them allowed; ""
// if none. `said`: what the run wrote, where there is no network whose decisions would tell.
Task<std::string> refused_connections(ToolContext& context, std::shared_ptr<sandbox::Sandbox> sandbox,
                                      std::chrono::steady_clock::time_point begun, std::string said);

// The argument `timeout` (seconds) or its default, limited by the configuration.
std::chrono::milliseconds allowed_time(const ToolContext& context, const boost::json::object& arguments);

std::vector<Tool> all_tools(const config::Languages& languages, const config::Config& config);
// Defined in the other files.
Tool execute_tool(const config::Languages& languages, const config::Config& config);
Tool reset_tool(const config::Languages& languages);
Tool validate_tool(const config::Languages& languages);
Tool write_file_tool(const config::Languages& languages);
Tool read_file_tool(const config::Languages& languages);
Tool list_files_tool(const config::Languages& languages);
Tool delete_file_tool(const config::Languages& languages);
Tool run_command_tool(const config::Languages& languages);
Tool process_output_tool(const config::Languages& languages);
Tool stop_process_tool(const config::Languages& languages);
Tool install_tool(const config::Languages& languages);
Tool network_tool(const config::Languages& languages);
Tool register_tool();
Tool create_session_tool();
Tool list_sessions_tool();
Tool close_session_tool();
Tool interrupt_tool(const config::Languages& languages);
Tool list_languages_tool();

}  // namespace cove::doors::mcp
