#include "cli/client/tool_commands.hpp"

#include <memory>

#include "cli/client/client_options.hpp"
#include "cli/client/table.hpp"
#include "cli/console.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;
using client::sandbox_target;

struct ToolArguments : ClientOptions {
  std::string id;
  std::string server;
};

struct AddArguments : ToolArguments {
  std::string address;
  std::string type;
  Words headers;
  Words environment;
  std::string place;
  Words allow;
  Words ask;
  Words deny;
  std::string otherwise;
  std::string directory;
};

struct CallArguments : ToolArguments {
  std::string tool;
  std::string arguments;
};

// Line by line: what a terminal would obey is escaped.
std::string printable_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    out += (out.empty() ? "" : "\n") + printable(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

json::object policy_of(const AddArguments& arguments) {
  json::object policy;
  if (!arguments.otherwise.empty()) policy["default"] = arguments.otherwise;
  if (!arguments.allow.empty()) policy["allow"] = json::value_from(arguments.allow);
  if (!arguments.ask.empty()) policy["ask"] = json::value_from(arguments.ask);
  if (!arguments.deny.empty()) policy["deny"] = json::value_from(arguments.deny);
  return policy;
}

Result<json::object> definition_of(const AddArguments& arguments, const AfterDashes& command) {
  json::object body{{"name", arguments.server}};
  const bool program = command && !command->empty();
  if (program && !arguments.address.empty())
    return fail(Errc::invalid, "a tool server is a program (after --) or has an address (--server), not both");
  if (program) {
    body["command"] = command->front();
    body["args"] = json::value_from(Words(command->begin() + 1, command->end()));
    COVE_TRY(auto environment, pairs("--env", arguments.environment));
    if (!environment.empty()) body["env"] = std::move(environment);
    if (!arguments.place.empty()) body["place"] = arguments.place;
  } else if (!arguments.address.empty()) {
    body["url"] = arguments.address;
    COVE_TRY(auto headers, pairs("--header", arguments.headers));
    if (!headers.empty()) body["headers"] = std::move(headers);
    if (!arguments.type.empty()) body["type"] = arguments.type;
  }
  if (!arguments.directory.empty()) body["directory"] = arguments.directory;
  if (auto policy = policy_of(arguments); !policy.empty()) body["policy"] = std::move(policy);
  return body;
}

void add_rows(Table& table, const json::object& server) {
  const auto* tools = server.if_contains("tools");
  if (tools == nullptr || !tools->is_array() || tools->get_array().empty())
    return table.add({text_of(server, "name"), "", "", text_of(server, "package"), ""});
  for (const auto& one : tools->get_array()) {
    if (!one.is_object()) continue;
    const auto& tool = one.get_object();
    table.add({text_of(server, "name"), text_of(tool, "name"), text_of(tool, "module"), text_of(server, "package"),
               text_of(tool, "policy")});
  }
}

Table tool_table() {
  return Table({"SERVER", "TOOL", "MODULE", "PACKAGE", "POLICY"});
}

Result<> add_server(const AddArguments& arguments, const AfterDashes& command) {
  COVE_TRY(const auto body, definition_of(arguments, command));
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask(json_request("POST", sandbox_target(arguments.id).text() + "/tools", body)));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto server, object_of(answer.body));
  auto table = tool_table();
  add_rows(table, server);
  return put_line(table.text());
}

Result<> list_servers(const ToolArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  COVE_TRY(const auto answer, client.ask({.method = "GET", .target = sandbox_target(arguments.id).text() + "/tools"}));
  if (arguments.json) return put_line(answer.body);
  COVE_TRY(const auto body, object_of(answer.body));
  auto table = tool_table();
  if (const auto* servers = body.if_contains("servers"); servers != nullptr && servers->is_array()) {
    for (const auto& server : servers->get_array()) {
      if (server.is_object()) add_rows(table, server.get_object());
    }
  }
  return put_line(table.text());
}

Result<> remove_server(const ToolArguments& arguments) {
  COVE_TRY(auto client, connect(arguments));
  const auto target = sandbox_target(arguments.id, "/tools/" + client::encoded(arguments.server));
  COVE_CHECK(client.ask({.method = "DELETE", .target = target.text()}));
  return {};
}

// The text of a result; of one that is an error, to standard error.
Result<> show_outcome(const std::string& body) {
  COVE_TRY(const auto outcome, object_of(body));
  if (const auto* error = outcome.if_contains("error"); error != nullptr && error->is_object())
    return fail(Errc::conflict, text_of(error->get_object(), "message"));
  const auto* result = outcome.if_contains("result");
  if (result == nullptr || !result->is_object()) return fail(Errc::io, "the server gave no result");
  const auto& object = result->get_object();
  std::string text;
  if (const auto* blocks = object.if_contains("content"); blocks != nullptr && blocks->is_array()) {
    for (const auto& block : blocks->get_array()) {
      if (!block.is_object()) continue;
      const auto& one = block.get_object();
      const auto kind = text_of(one, "type");
      text += (text.empty() ? "" : "\n") + (kind == "text" ? text_of(one, "text") : "[" + kind + "]");
    }
  }
  const auto* failed = object.if_contains("is_error");
  if (failed != nullptr && failed->is_bool() && failed->get_bool()) return fail(Errc::conflict, text);
  if (const auto* structured = object.if_contains("structured")) return put_line(pretty(*structured));
  return put_line(printable_lines(text));
}

Result<> call_tool(const CallArguments& arguments) {
  json::object body{{"tool", arguments.tool}};
  if (!arguments.arguments.empty()) {
    boost::system::error_code failed;
    auto given = json::parse(arguments.arguments, failed);
    if (failed || !given.is_object())
      return fail(Errc::invalid, R"(the arguments must be a JSON object, such as '{"city": "Linz"}')");
    body["arguments"] = std::move(given);
  }
  COVE_TRY(auto client, connect(arguments));
  const auto target = sandbox_target(arguments.id, "/tools/" + client::encoded(arguments.server) + "/call");
  COVE_TRY(const auto answer, client.ask(json_request("POST", target.text(), body)));
  if (arguments.json) return put_line(answer.body);
  return show_outcome(answer.body);
}

void name_server(App* command, ToolArguments& a) {
  command->add_option("id", a.id, "Sandbox id")->required();
  command->add_option("server", a.server, "Name of the tool server")->required();
}

}  // namespace

void add_tool_commands(App& app, Commands& commands) {
  auto* all = app.add_subcommand("tools", "MCP servers whose tools code in a sandbox may call");
  all->require_subcommand(1);
  {
    auto* command = all->add_subcommand("add", "Register a tool server and put its package into the sandbox");
    const auto a = std::make_shared<AddArguments>();
    name_server(command, *a);
    command->add_option("--server", a->address, "URL of a server over HTTP");
    command->add_option("--type", a->type, "streamable_http, http or sse (default: found out)");
    again(command->add_option("--header", a->headers, "Header NAME=VALUE for it; ${NAME} is a variable of cove serve"));
    again(command->add_option("-e,--env", a->environment, "Variable NAME=VALUE of a program"));
    command->add_option("--place", a->place, "Where a program runs: own (a sandbox of its own; default) or inside");
    command->add_option("--policy", a->otherwise, "For tools that no other flag names: allow, ask or deny");
    again(command->add_option("--allow", a->allow, "Tool that may be called; * stands for any characters"));
    again(command->add_option("--ask", a->ask, "Tool that needs approval for each call"));
    again(command->add_option("--deny", a->deny, "Tool that may not be called"));
    command->add_option("--directory", a->directory, "Directory of the package (default: mcptools)");
    command->footer(
        "Examples:\n"
        "  cove tools add demo weather --server https://weather.example/mcp --header 'Authorization=Bearer ${KEY}'\n"
        "  cove tools add demo notes --place inside --ask 'delete_*' -- python3 server.py");
    describe(*command, *a, "ID SERVER [-- COMMAND [ARGUMENT...]]");
    commands.push_back({command, [a](const AfterDashes& after) { return told(*a, add_server(*a, after)); }});
  }
  {
    auto* command = all->add_subcommand("ls", "List the tools that code in a sandbox may call");
    const auto a = std::make_shared<ToolArguments>();
    command->add_option("id", a->id, "Sandbox id")->required();
    command->footer("Example:\n  cove tools ls demo");
    describe(*command, *a, "ID");
    commands.push_back({command, [a](const AfterDashes&) { return told(*a, list_servers(*a)); }});
  }
  {
    auto* command = all->add_subcommand("rm", "Unregister a tool server; its package stays");
    const auto a = std::make_shared<ToolArguments>();
    name_server(command, *a);
    command->footer("Example:\n  cove tools rm demo weather");
    describe(*command, *a, "ID SERVER");
    commands.push_back({command, [a](const AfterDashes&) { return told(*a, remove_server(*a)); }});
  }
  {
    auto* command = all->add_subcommand("call", "Call a tool and print its result");
    const auto a = std::make_shared<CallArguments>();
    name_server(command, *a);
    command->add_option("tool", a->tool, "Name of the tool, or of its module")->required();
    command->add_option("arguments", a->arguments, "Its arguments, as a JSON object");
    command->footer("Example:\n  cove tools call demo weather get-forecast '{\"city\": \"Linz\"}'");
    describe(*command, *a, "ID SERVER TOOL [ARGUMENTS]");
    commands.push_back({command, [a](const AfterDashes&) { return told(*a, call_tool(*a)); }});
  }
}

}  // namespace cove::cli
