#include <fmt/format.h>

#include "doors/mcp/arguments.hpp"
#include "doors/mcp/client_form.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/schema.hpp"
#include "doors/mcp/tool.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Or;

std::string sentence_for(const Call& call, const std::string& session, std::string language, std::size_t ended) {
  if (language != "all") {
    language.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(language.front())));
    return language + " session reset.";
  }
  if (!session.empty()) return ended == 0 ? "There was no session " + session + "." : "Session " + session + " reset.";
  if (reads_old_form(call)) return "All sessions reset.";  // as they expect it, word for word
  if (ended == 0) return "There was no session to reset.";
  return ended == 1 ? "Session reset." : fmt::format("{} sessions reset.", ended);
}

Task<Or<>> reset(ToolContext& context, Call& call, json::object arguments) {
  const auto language = text_argument(arguments, "language");
  if (!language) co_return tool_error(language.error().message);
  const auto session = text_argument(arguments, "session_id");
  if (!session) co_return tool_error(session.error().message);
  auto which = language->value_or("all");
  if (which != "all") {
    const auto known = context.languages.by_name(which);
    if (!known) co_return tool_error("Unsupported language: " + which);
    which = known->name;
  }
  const auto done = co_await context.sessions.reset(call, session->value_or(""), which);
  if (!done) co_return tool_error(done.error().message);
  co_return answer(sentence_for(call, session->value_or(""), which, *done), {{"ended", *done}});
}

}  // namespace

Tool reset_tool(const config::Languages& languages) {
  json::array names{"all"};
  for (const auto& language : languages.all()) names.emplace_back(language.name);
  Tool tool;
  tool.definition = {
      {"name", "reset_session"},
      {"title", "Reset sessions"},
      {"description",
       "Ends sessions; their variables, processes and files are lost. With session_id, ends that session, or, if a "
       "language is given too, only that language's interpreter in it. Without session_id, ends the default sessions "
       "of this connection: that of one language, or all of them."},
      {"inputSchema",
       {{"type", "object"},
        {"properties",
         {{"language", {{"type", "string"}, {"enum", std::move(names)}, {"default", "all"}}},
          {"session_id", {{"type", "string"}, {"description", "The session to reset"}}}}}}},
      {"outputSchema",
       {{"type", "object"}, {"properties", {{"ended", {{"type", "integer"}}}}}, {"required", json::array{"ended"}}}},
      {"annotations",
       {{"readOnlyHint", false}, {"destructiveHint", true}, {"idempotentHint", true}, {"openWorldHint", false}}}};
  tool.run = reset;
  tool.makes_files = true;
  return tool;
}

}  // namespace cove::doors::mcp
