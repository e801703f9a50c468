#include "mcp/client/tool_list.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "json/fields.hpp"
#include "mcp/client/request_headers.hpp"

namespace cove::mcp::client {
namespace {

namespace json = boost::json;
using async::Task;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxName = 1024;
constexpr std::chrono::milliseconds kShortestLife{1000};  // of a list that the server would have asked for every time
constexpr std::int64_t kLongestLife = 24LL * 3600 * 1000;

bool says(const json::object& annotations, std::string_view hint) {
  const auto* value = annotations.if_contains(hint);
  return value != nullptr && value->is_bool() && value->as_bool();
}

Clock::time_point expiry_of(const json::object& result) {
  const auto* ttl = result.if_contains("ttlMs");
  if (ttl == nullptr || !ttl->is_int64()) return Clock::time_point::max();
  const auto life = std::chrono::milliseconds(std::clamp<std::int64_t>(ttl->as_int64(), 0, kLongestLife));
  return Clock::now() + std::max(life, kShortestLife);
}

tl::unexpected<Error> page_refused(const Reply& reply) {
  if (reply.unauthorized)
    return fail(Errc::denied, fmt::format("the server wants other credentials (HTTP {})", reply.status));
  if (reply.fault)
    return fail(Errc::conflict, fmt::format("the server does not list its tools: {} ({})", shown(reply.fault->message),
                                            static_cast<int>(reply.fault->code)));
  return fail(Errc::unavailable,
              fmt::format("the server does not list its tools (HTTP {}): {}", reply.status, reply.said));
}

// Reads the tools of one page into the list.
void take_page(const json::array& page, Over over, std::set<std::string, std::less<>>& names, ToolList& list,
               const std::function<void(std::string_view)>& complain) {
  for (const auto& definition : page) {
    auto tool = read_tool(definition, over);
    if (!tool) {
      complain(tool.error().message);
      continue;
    }
    if (!names.insert(tool->tool.name).second) {
      complain(fmt::format("the tool {} is listed twice; the first counts", shown(tool->tool.name, 100)));
      continue;
    }
    list.tools.push_back(std::move(*tool));
  }
}

}  // namespace

bool ListedTool::harmless_again() const {
  return says(tool.annotations, "readOnlyHint") || says(tool.annotations, "idempotentHint");
}

const ListedTool* ToolList::find(std::string_view name) const {
  const auto found = std::ranges::find_if(tools, [name](const ListedTool& one) { return one.tool.name == name; });
  return found == tools.end() ? nullptr : &*found;
}

Result<ListedTool> read_tool(const json::value& definition, Over over) {
  if (!definition.is_object()) return fail(Errc::conflict, "a tool was left out: its definition is no object");
  const auto& object = definition.as_object();
  ListedTool out;
  out.tool.name = cove::json::text_of(object, "name");
  const auto left_out = [&out](std::string_view why) {
    return fail(Errc::conflict, fmt::format("the tool {} was left out: {}", shown(out.tool.name, 100), why));
  };
  if (out.tool.name.empty() || out.tool.name.size() > kMaxName) return left_out("its name is missing or too long");
  out.tool.title = cove::json::text_of(object, "title");
  out.tool.description = cove::json::text_of(object, "description");
  const auto* schema = object.if_contains("inputSchema");
  if (schema != nullptr && !schema->is_object()) return left_out("its inputSchema is no object");
  if (schema != nullptr) out.tool.input_schema = schema->as_object();
  if (const auto* output = object.if_contains("outputSchema"); output != nullptr && output->is_object())
    out.tool.output_schema = output->as_object();
  if (const auto* annotations = object.if_contains("annotations"); annotations != nullptr && annotations->is_object())
    out.tool.annotations = annotations->as_object();
  if (out.tool.title.empty()) out.tool.title = cove::json::text_of(out.tool.annotations, "title");
  if (const auto* execution = object.if_contains("execution"); execution != nullptr && execution->is_object())
    out.as_task = cove::json::text_of(execution->as_object(), "taskSupport") == "required";
  if (over == Over::http) {
    if (const auto legal = check_mirrored(out.tool.input_schema); !legal) return left_out(legal.error().message);
  }
  return out;
}

Task<Result<ToolList>> read_tools(AskPage ask, Limits limits, Over over,
                                  std::function<void(std::string_view)> complain) {
  ToolList list;
  list.expires = Clock::time_point::max();
  std::set<std::string, std::less<>> names;
  std::set<std::string, std::less<>> cursors;
  std::uint64_t bytes = 0;
  json::object params;
  for (std::size_t page = 1;; ++page) {
    if (page > limits.list_pages)
      co_return fail(Errc::over_limit, fmt::format("the list of tools has over {} pages", limits.list_pages));
    auto asked = params;
    const auto reply = co_await ask(std::move(asked));
    if (!reply) co_return tl::unexpected<Error>(reply.error());
    if (reply->fault || reply->status >= 300) co_return page_refused(*reply);
    bytes += reply->bytes;
    if (bytes > limits.list_bytes)
      co_return fail(Errc::over_limit, fmt::format("the list of tools is larger than {} bytes", limits.list_bytes));
    const auto* tools = reply->result.if_contains("tools");
    if (tools == nullptr || !tools->is_array())
      co_return fail(Errc::conflict, "the server's answer to tools/list has no array of tools");
    if (list.tools.size() + tools->as_array().size() > limits.tools)
      co_return fail(Errc::over_limit, fmt::format("the server has over {} tools", limits.tools));
    take_page(tools->as_array(), over, names, list, complain);
    list.expires = std::min(list.expires, expiry_of(reply->result));
    const auto* next = reply->result.if_contains("nextCursor");
    if (next == nullptr || !next->is_string()) break;
    if (!cursors.emplace(next->as_string()).second)
      co_return fail(Errc::conflict, "the list of tools leads back to a page that was read before");
    params["cursor"] = next->as_string();
  }
  co_return list;
}

}  // namespace cove::mcp::client
