#include "doors/mcp/service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Code;
using cove::mcp::fault;
using cove::mcp::Or;

constexpr std::size_t kPage = 100;

// Where a list goes on: the number of what was given, which nobody has to understand.
Or<std::size_t> place_of(const json::object& params, std::size_t size) {
  const auto* cursor = params.if_contains("cursor");
  if (cursor == nullptr || cursor->is_null()) return 0;
  std::size_t at = 0;
  if (cursor->is_string()) {
    const std::string_view text = cursor->as_string();
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), at);
    if (wrong == std::errc() && end == text.data() + text.size() && at < size) return at;
  }
  return fault(Code::invalid_params, "Invalid params: no such cursor");
}

}  // namespace

std::vector<Tool> all_tools(const config::Languages& languages) {
  std::vector<Tool> tools;
  tools.push_back(execute_tool(languages));
  tools.push_back(validate_tool(languages));
  tools.push_back(reset_tool(languages));
  tools.push_back(write_file_tool(languages));
  tools.push_back(read_file_tool(languages));
  tools.push_back(list_files_tool(languages));
  tools.push_back(delete_file_tool(languages));
  return tools;
}

CodeService::CodeService(Services& services)
    : workshop_{.services = services,
                .sessions = Sessions(services),
                .languages = config::Languages::built_in().value()},  // tested: what is built in can be read
      tools_(all_tools(workshop_.languages)) {}

json::object CodeService::info() const {
  return {{"name", workshop_.services.config()->mcp.server_name}, {"title", "Cove"}, {"version", COVE_VERSION}};
}

std::string CodeService::instructions() const {
  return "Runs code in sandboxes without a network. Python keeps its state between calls of one session; files stay in "
         "/workspace of the session.";
}

json::object CodeService::capabilities(cove::mcp::Revision revision) const {
  json::object all{{"tools", {{"listChanged", false}}}};
  if (!modern(revision)) all["logging"] = json::object();
  return all;
}

json::object CodeService::input_schema(std::string_view tool) const {
  const auto found = std::ranges::find(tools_, tool, &Tool::name);
  return found != tools_.end() ? found->definition.at("inputSchema").as_object() : json::object();
}

Task<Or<>> CodeService::serve(Call& call) {
  if (call.method == "tools/list") co_return list_tools(call.params);
  if (call.method == "tools/call") co_return co_await call_tool(call);
  co_return fault(Code::method_not_found, fmt::format("Method not found: {}", call.method));
}

Or<> CodeService::list_tools(const json::object& params) const {
  const auto from = place_of(params, tools_.size());
  if (!from) return tl::unexpected<cove::mcp::Fault>(from.error());
  json::array page;
  auto at = *from;
  for (; at < tools_.size() && page.size() < kPage; ++at) page.push_back(tools_[at].definition);
  json::object result{{"tools", std::move(page)}};
  if (at < tools_.size()) result["nextCursor"] = std::to_string(at);
  return result;
}

Task<Or<>> CodeService::call_tool(Call& call) {
  const auto* name = call.params.if_contains("name");
  if (name == nullptr || !name->is_string())
    co_return fault(Code::invalid_params, "Invalid params: name must be a string");
  const auto tool = std::ranges::find(tools_, std::string_view(name->as_string()), &Tool::name);
  if (tool == tools_.end())
    co_return fault(Code::invalid_params, fmt::format("Unknown tool: {}", std::string_view(name->as_string())));
  json::object arguments;
  if (const auto* given = call.params.if_contains("arguments"); given != nullptr && !given->is_null()) {
    if (!given->is_object()) co_return fault(Code::invalid_params, "Invalid params: arguments must be an object");
    arguments = given->as_object();
  }
  co_return co_await tool->run(workshop_, call, std::move(arguments));
}

}  // namespace cove::doors::mcp
