#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/random_name.hpp"
#include "doors/mcp/arguments.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/run.hpp"
#include "doors/mcp/schema.hpp"
#include "doors/mcp/tool.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Or;
using sandbox::ProcessKind;

constexpr std::size_t kMaxListed = 500;

bool runs(const sandbox::Process& process, ProcessKind kind) {
  return process.request().kind == kind && !process.end();
}

// --- create_session

Task<Or<>> create_session(ToolContext& context, Call& call, json::object arguments) {
  const auto given = text_argument(arguments, "session_id");
  if (!given) co_return tool_error(given.error().message);
  if (*given && (*given)->empty()) co_return tool_error("Invalid argument: session_id is empty");
  const auto name = given->value_or(random_name("session-"));
  const auto memory = memory_argument(arguments, context.services.config()->sandbox.max_memory_bytes);
  if (!memory) co_return tool_error(memory.error().message);
  const auto session = co_await context.sessions.open(call, name, "", {.memory_bytes = *memory});
  if (!session) co_return tool_error(session.error().message);
  const auto expires = iso_time(session->sandbox->expires_unix_ms());
  co_return answer(fmt::format("Session: {}\nIt {} and ends at {} unless it is used before then.", session->id,
                               session->fresh ? "is new" : "already existed", expires),
                   {{"session_id", session->id}, {"created", session->fresh}, {"expires_at", expires}});
}

// --- list_sessions

json::object shown(const ToolContext& context, const sandbox::Sandbox& sandbox) {
  std::size_t background = 0;
  bool busy = false;
  for (const auto& process : sandbox.processes()) {
    background += runs(*process, ProcessKind::background) ? 1 : 0;
    busy = busy || runs(*process, ProcessKind::exec);
  }
  for (const auto& kernel : context.services.registry.kernels().of(sandbox))
    busy = busy || kernel->state() == sandbox::Kernel::State::busy;
  return {{"session_id", sandbox.name()},
          {"state", name_of(sandbox.state())},
          {"busy", busy},
          {"background_processes", background},
          {"expires_at", iso_time(sandbox.expires_unix_ms())}};
}

Task<Or<>> list_sessions(ToolContext& context, Call& call, json::object /*arguments*/) {
  json::array sessions;
  std::string text;
  bool more = false;
  for (const auto& sandbox : context.services.registry.of(call.tenant, "")) {
    if (context.sessions.hidden(call, sandbox->name())) continue;
    if (sandbox->state() == sandbox::State::deleting || sandbox->state() == sandbox::State::gone) continue;
    if (sessions.size() == kMaxListed) {
      more = true;
      break;
    }
    auto one = shown(context, *sandbox);
    text += fmt::format("{}  {}{}\n", sandbox->name(), std::string_view(one.at("state").as_string()),
                        one.at("busy").as_bool() ? ", busy" : "");
    sessions.push_back(std::move(one));
  }
  if (text.empty()) text = "There are no sessions.";
  if (more) text += "[truncated: there are more sessions]";
  co_return answer(std::move(text), {{"sessions", std::move(sessions)}, {"truncated", more}});
}

// --- close_session

Task<Or<>> close_session(ToolContext& context, Call& call, json::object arguments) {
  const auto name = required_text(arguments, "session_id");
  if (!name) co_return tool_error(name.error().message);
  if (name->empty()) co_return tool_error("Invalid argument: session_id is empty");
  const auto found = co_await context.sessions.find(call, *name, "");
  if (!found) co_return tool_error(found.error().message);
  // The user is asked before running work is lost.
  const auto facts = shown(context, **found);
  if (facts.at("busy").as_bool() || facts.at("background_processes").to_number<std::size_t>() > 0) {
    const auto question =
        cove::mcp::elicitation("close", fmt::format("Something is running in session {}. End the session?", *name),
                               schema({{"close", property("boolean", "End it")}}, {"close"}));
    if (call.can_ask(question)) {
      auto asked = co_await call.ask({question});
      if (!asked) co_return asked.error();
      if (!cove::mcp::agreed(*asked, "close"))
        co_return tool_error("The session was not ended: the user did not agree.");
    }
  }
  co_await context.services.registry.remove(*found, "deleted", journal::actor_of(principal_of(call)));
  co_return answer(fmt::format("Session {} has ended.", *name), {{"session_id", *name}, {"closed", true}});
}

// --- interrupt

// Does not take the session's lock: the run that holds it is the one to interrupt.
Task<Or<>> interrupt(ToolContext& context, Call& call, json::object arguments) {
  const auto target = session_argument(arguments, context.languages);
  if (!target) co_return tool_error(target.error().message);
  const auto found = co_await context.sessions.find(call, target->name, target->language);
  if (!found) co_return tool_error(found.error().message);
  std::size_t count = 0;
  for (const auto& kernel : context.services.registry.kernels().of(**found)) {
    if (kernel->state() == sandbox::Kernel::State::busy && kernel->interrupt(journal::actor_of(principal_of(call))))
      ++count;
  }
  for (const auto& process : (*found)->processes()) {
    if (!runs(*process, ProcessKind::exec)) continue;
    process->stop(sandbox::Reason::cancelled);
    ++count;
  }
  (*found)->touch();
  co_return answer(count == 0 ? "Nothing was running." : "The running code was interrupted.",
                   {{"session_id", (*found)->name()}, {"interrupted", count}});
}

// --- list_languages

Task<Or<>> list_languages(ToolContext& context, Call& /*call*/, json::object /*arguments*/) {
  const auto there = installed_languages(context);
  json::array languages;
  std::string text;
  for (const auto& language : context.languages.all()) {
    const bool installed = std::ranges::count(there, json::value(language.name)) > 0;
    const bool live = keeps_state(language);
    languages.push_back(json::object{{"name", language.name},
                                     {"installed", installed},
                                     {"keeps_state", live},
                                     {"extension", language.extensions.front()},
                                     {"mime_type", language.mime}});
    text += fmt::format("{} ({}){}{}\n", language.name, language.extensions.front(), live ? ", keeps state" : "",
                        installed ? "" : ", not installed");
  }
  co_return answer(std::move(text), {{"languages", std::move(languages)}});
}

json::object nothing() {
  return {{"type", "object"}, {"additionalProperties", false}};
}

}  // namespace

Tool create_session_tool() {
  Tool tool;
  tool.definition = {
      {"name", "create_session"},
      {"title", "Create a session"},
      {"description",
       "Creates a session, or returns the existing one with that name; pass its session_id to other tools. A session "
       "keeps variables, files and processes between calls, and ends when it has not been used for a while (an hour, "
       "unless the server is configured otherwise). Calling this first is optional: a tool that is given an unknown "
       "session_id creates the session."},
      {"inputSchema", schema({{"session_id", property("string", "A name for the session; one is generated if omitted")},
                              {"memory", property("string", "Memory limit, for example 2G")}},
                             {})},
      {"outputSchema", schema({{"session_id", property("string", "")},
                               {"created", property("boolean", "The session is new")},
                               {"expires_at", property("string", "When the session ends unless it is used")}},
                              {"session_id", "created", "expires_at"})},
      {"annotations", annotations({.idempotent = true})}};
  tool.run = create_session;
  return tool;
}

Tool list_sessions_tool() {
  const auto one = schema({{"session_id", property("string", "")},
                           {"state", property("string", "running, paused, creating")},
                           {"busy", property("boolean", "Code or a command is running in it")},
                           {"background_processes", property("integer", "Number of running background processes")},
                           {"expires_at", property("string", "When the session ends unless it is used")}},
                          {"session_id", "state", "busy"});
  Tool tool;
  tool.definition = {
      {"name", "list_sessions"},
      {"title", "List sessions"},
      {"description", "Lists your sessions, including those created by other clients with the same key."},
      {"inputSchema", nothing()},
      {"outputSchema",
       schema({{"sessions", list_of(one, "")}, {"truncated", property("boolean", "There are more sessions")}},
              {"sessions"})},
      {"annotations", annotations({.read_only = true, .idempotent = true})}};
  tool.run = list_sessions;
  return tool;
}

Tool close_session_tool() {
  Tool tool;
  tool.definition = {
      {"name", "close_session"},
      {"title", "End a session"},
      {"description",
       "Ends a session at once: running code is stopped, variables and files are lost. For default sessions, which "
       "have no name, use reset_session."},
      {"inputSchema", schema({{"session_id", property("string", "The session to end")}}, {"session_id"})},
      {"outputSchema",
       schema({{"session_id", property("string", "")}, {"closed", property("boolean", "")}}, {"session_id", "closed"})},
      {"annotations", annotations({.destructive = true, .idempotent = true})}};
  tool.run = close_session;
  return tool;
}

Tool interrupt_tool(const config::Languages& languages) {
  Tool tool;
  tool.definition = {{"name", "interrupt"},
                     {"title", "Interrupt running code"},
                     {"description",
                      "Interrupts the code or command that is running in a session, without waiting for it. "
                      "Interpreters keep their variables; background processes keep running."},
                     {"inputSchema", session_schema(languages, {}, {})},
                     {"outputSchema", schema({{"session_id", property("string", "")},
                                              {"interrupted", property("integer", "How many runs were interrupted")}},
                                             {"session_id", "interrupted"})},
                     {"annotations", annotations({.idempotent = true})}};
  tool.run = interrupt;
  return tool;
}

Tool list_languages_tool() {
  const auto one = schema({{"name", property("string", "")},
                           {"installed", property("boolean", "")},
                           {"keeps_state", property("boolean", "Variables are kept between calls in one session")},
                           {"extension", property("string", "Extension of its source files")},
                           {"mime_type", property("string", "")}},
                          {"name", "installed", "keeps_state", "extension"});
  Tool tool;
  tool.definition = {
      {"name", "list_languages"},
      {"title", "List languages"},
      {"description",
       "Lists the languages that execute_code and validate_code support, and which of them are installed."},
      {"inputSchema", nothing()},
      {"outputSchema", schema({{"languages", list_of(one, "")}}, {"languages"})},
      {"annotations", annotations({.read_only = true, .idempotent = true})}};
  tool.run = list_languages;
  return tool;
}

}  // namespace cove::doors::mcp
