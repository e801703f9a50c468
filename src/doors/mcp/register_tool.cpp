#include <fmt/format.h>

#include "doors/mcp/arguments.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/schema.hpp"
#include "doors/mcp/tool.hpp"
#include "network/requested.hpp"
#include "tools/broker.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Or;

Result<tools::Definition> parse_server(json::object& arguments) {
  COVE_TRY(auto name, text_argument(arguments, "server_name"));
  if (!name) return fail(Errc::invalid, "Missing required parameter: server_name");
  auto* params = arguments.if_contains("server_params");
  if (params == nullptr) return fail(Errc::invalid, "Missing required parameter: server_params");
  if (!params->is_object()) return fail(Errc::invalid, "Invalid argument: server_params must be an object");
  auto& object = params->get_object();
  // Among the files of the session, as the servers that this tool is known from have it.
  if (object.contains("command") && !object.contains("place")) object["place"] = "inside";
  return tools::parse_definition(std::move(*name), std::move(object));
}

Task<Or<>> register_server(ToolContext& context, Call& call, json::object arguments) {
  const auto session_id = text_argument(arguments, "session_id");
  if (!session_id) co_return tool_error(session_id.error().message);
  auto definition = parse_server(arguments);
  if (!definition) co_return tool_error(definition.error().message);
  const auto principal = principal_of(call);
  if (!definition->network_json.empty()) {
    const auto may = network::requested_policy(context.services, principal, json::parse(definition->network_json), {});
    if (!may) co_return tool_error(may.error().message);
  }
  const auto session = co_await context.sessions.open(call, session_id->value_or(""), "python");
  if (!session) co_return tool_error(session.error().message);
  const auto view = co_await context.services.tools.add(session->sandbox, principal, std::move(*definition));
  if (!view) co_return tool_error(view.error().message);
  auto package = view->definition->path();
  std::ranges::replace(package, '/', '.');
  std::string names;
  for (const auto& module : view->modules) names += (names.empty() ? "" : ", ") + module;
  co_return answer(fmt::format("Registered {}: {}\nUse: from {}.functions import …\nSession: {}", package, names,
                               package, session->id),
                   {{"session_id", session->id}, {"package", package}, {"tools", json::value_from(view->modules)}});
}

}  // namespace

Tool register_tool() {
  auto hints = annotations({.idempotent = true});
  hints["openWorldHint"] = true;
  Tool tool;
  tool.definition = {
      {"name", "register_mcp_server"},
      {"title", "Register an MCP server"},
      {"description",
       "Makes the tools of an MCP server callable from Python code of a session, as functions of the package "
       "mcptools.NAME.functions. A server with a command runs in the session, one with a url is reached from outside "
       "of it."},
      {"inputSchema", schema({{"server_name", property("string", "A Python identifier: the name of the package")},
                              {"server_params",
                               {{"type", "object"},
                                {"description",
                                 "{\"command\", \"args\", \"env\"} or {\"url\", \"headers\"}; ${NAME} is a variable "
                                 "of the server's environment"}}},
                              {"session_id", session_property()}},
                             {"server_name", "server_params"})},
      {"outputSchema", schema({{"session_id", property("string", "")},
                               {"package", property("string", "Where the functions can be imported from")},
                               {"tools", list_of({{"type", "string"}}, "Names of the functions")}},
                              {"session_id", "package", "tools"})},
      {"annotations", std::move(hints)}};
  tool.run = register_server;
  tool.makes_files = true;
  return tool;
}

}  // namespace cove::doors::mcp
