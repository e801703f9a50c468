#include <fmt/format.h>

#include "base/text.hpp"
#include "base/units.hpp"
#include "doors/mcp/arguments.hpp"
#include "doors/mcp/client_form.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/run.hpp"
#include "doors/mcp/run_answer.hpp"
#include "doors/mcp/schema.hpp"
#include "doors/mcp/tool.hpp"
#include "run/workplace.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Or;

constexpr std::size_t kMaxFiles = 100;
constexpr std::size_t kMaxFileBytes = std::size_t{8} << 20;  // in total

tl::unexpected<Error> wrong(const std::string& where, std::string_view what) {
  return fail(Errc::invalid, fmt::format("Invalid argument: {} {}", where, what));
}

// [{"path" or "name", "content", "encoding"?}]
Result<std::vector<sandbox::NewFile>> files_argument(const json::object& arguments) {
  std::vector<sandbox::NewFile> files;
  const auto* value = arguments.if_contains("files");
  if (value == nullptr || value->is_null()) return files;
  if (!value->is_array()) return wrong("files", "must be a list of objects");
  if (value->as_array().size() > kMaxFiles) return wrong("files", fmt::format("has more than {} files", kMaxFiles));
  std::size_t bytes = 0;
  for (const auto& element : value->as_array()) {
    const auto where = fmt::format("files[{}]", files.size());
    const auto* file = element.if_object();
    if (file == nullptr) return wrong(where, "must be an object");
    const auto* key = file->contains("path") ? "path" : "name";
    const auto path = text_argument(*file, key);
    if (!path || !*path) return wrong(where + ".path", "must be a string");
    COVE_TRY(auto checked, path_argument(**path, where + "." + key));
    const auto content = text_argument(*file, "content");
    if (!content || !*content) return wrong(where + ".content", "must be a string");
    const auto encoding = text_argument(*file, "encoding");
    if (!encoding || (*encoding && **encoding != "base64" && **encoding != "utf-8" && **encoding != "utf8"))
      return wrong(where + ".encoding", "must be \"base64\" or \"utf-8\"");
    auto text = **content;
    if (*encoding && **encoding == "base64") {
      auto decoded = from_base64(text, Padding::optional);
      if (!decoded) return wrong(where + ".content", "is not base64");
      text = std::move(*decoded);
    }
    bytes += text.size();
    if (bytes > kMaxFileBytes) return wrong("files", fmt::format("hold more than {} bytes", kMaxFileBytes));
    files.push_back({.path = std::move(checked), .content = std::move(text)});
  }
  return files;
}

Result<RunRequest> parse(const ToolContext& context, const json::object& arguments) {
  RunRequest request;
  COVE_TRY(request.language, language_argument(arguments, context.languages));
  COVE_TRY(request.code, required_text(arguments, "code"));
  COVE_TRY(request.filename, filename_argument(arguments, request.language));
  COVE_TRY(request.save, flag_argument(arguments, "save"));
  if (request.save && request.filename.empty()) request.filename = "main" + request.language.extensions.front();
  COVE_TRY(request.files, files_argument(arguments));
  COVE_TRY(request.input, text_argument(arguments, "stdin"));
  COVE_TRY(request.arguments, strings_argument(arguments, "args"));
  COVE_TRY(request.variables, variables_argument(arguments, "env"));
  COVE_CHECK(seconds_argument(arguments, "timeout"));
  request.timeout = allowed_time(context, arguments);
  return request;
}

config::McpProfile profile_for(const ToolContext& context, const Call& call) {
  using config::McpProfile;
  const auto profile = context.services.config()->mcp.profile;
  if (profile != McpProfile::automatic) return profile;
  return reads_old_form(call) ? McpProfile::superset : McpProfile::concise;
}

Task<Or<>> execute(ToolContext& context, Call& call, json::object arguments) {
  auto request = parse(context, arguments);
  if (!request) co_return tool_error(request.error().message);
  const auto name = text_argument(arguments, "session_id");
  if (!name) co_return tool_error(name.error().message);
  const auto reset = flag_argument(arguments, "reset_session");
  if (!reset) co_return tool_error(reset.error().message);
  const auto memory = memory_argument(arguments, context.services.config()->sandbox.max_memory_bytes);
  if (!memory) co_return tool_error(memory.error().message);
  const SessionWish wish{.reset = *reset ? Reset::yes : Reset::no, .memory_bytes = *memory};
  auto session = co_await context.sessions.open(call, name->value_or(""), request->language.name, wish);
  if (!session) co_return tool_error(session.error().message);
  const auto ticket = co_await run::admit(context.services, caller_of(call));
  if (!ticket) co_return tool_error(ticket.error().message);
  request->kept = begin_output(context, call);
  RunAnswer about{.profile = profile_for(context, call),
                  .max_text = context.services.config()->mcp.answer_bytes,
                  .language = request->language,
                  .code = request->code,
                  .filename = request->filename,
                  .saved = request->save,
                  .session_id = session->id,
                  .name_session = *name || call.connection.empty(),
                  .execution_id = request->kept->id()};
  const auto begun = std::chrono::steady_clock::now();
  auto record = co_await run(context.services, call, *session, std::move(*request));
  if (!record) co_return tool_error("Execution failed: " + record.error().message);
  if (record->not_started)
    record->notes.back() += fmt::format("; {} needs the package {} on the server's host or in the sandbox template",
                                        about.language.name, about.language.package);
  auto said =
      record->error_message + record->err.beginning() + record->err.end() + record->out.beginning() + record->out.end();
  auto refused = co_await refused_connections(context, session->sandbox, begun, std::move(said));
  if (!refused.empty()) record->notes.push_back(std::move(refused));
  if (!session->note.empty()) record->notes.insert(record->notes.begin(), session->note);
  if (record->kept) context.outputs.keep(record->kept);
  co_return answer_of(about, *record);
}

json::object input_schema(const config::Languages& languages) {
  json::object file = schema({{"path", property("string", "Relative to /workspace")},
                              {"content", property("string", "The content")},
                              {"encoding", one_of({"utf-8", "base64"}, "Encoding of content; utf-8 if omitted")}},
                             {"path", "content"});
  return schema(
      {{"language", language_property(languages, "")},
       {"code", property("string", "The source text")},
       {"filename", property("string", "File name, with or without extension; may include directories")},
       {"session_id", property("string", "Name of the session; created if it does not exist")},
       {"save", property("boolean", "Keep the source file in the session's workspace, where other code can import it")},
       {"reset_session", property("boolean", "Start with a new session, without the old variables and files")},
       {"memory", property("string", "Memory limit of a new session, for example 2G")},
       {"timeout", property("number", "Time limit in seconds")},
       {"stdin", property("string", "Standard input; empty if omitted")},
       {"args", list_of({{"type", "string"}}, "Command-line arguments")},
       {"env", map_of_strings("Environment variables")},
       {"files", list_of(std::move(file), "Files to write into the workspace before the run")}},
      {"language", "code"});
}

json::object output_schema() {
  const json::object whole{{"type", "integer"}};
  const json::object flag{{"type", "boolean"}};
  const json::object text{{"type", "string"}};
  auto file = schema({{"uri", text},
                      {"name", text},
                      {"mimeType", text},
                      {"size", whole},
                      {"change", one_of({"created", "modified"}, "What the run did to it")}},
                     {"uri", "name", "mimeType", "size", "change"});
  return schema({{"exit_code", property("integer", "128+n if signal n ended the run, -1 after a timeout")},
                 {"signal", nullable("string", "The signal that ended the run")},
                 {"stdout", text},
                 {"stderr", text},
                 {"duration_ms", whole},
                 {"timed_out", flag},
                 {"truncated", schema({{"stdout", flag}, {"stderr", flag}}, {"stdout", "stderr"})},
                 {"language", text},
                 {"session_id", property("string", "Pass this in the next call to continue in the same session")},
                 {"execution_id",
                  property("string", "The output can be read as execution://ID/stdout and execution://ID/stderr")},
                 {"filename", text},
                 {"files", list_of(std::move(file), "Workspace files that the run wrote")},
                 {"more_files", property("boolean", "The run wrote more files than are listed")},
                 {"images", property("integer", "Number of images in this answer")},
                 {"error", schema({{"type", text}, {"message", text}}, {"type", "message"})},
                 {"oom_kills", property("integer", "Processes that were killed for memory")},
                 {"forks_refused", property("integer", "Forks over the process limit")},
                 {"note", property("string", "Remarks about the run, such as why it was stopped")},
                 {"not_utf8", property("boolean", "Bytes that are not UTF-8 were replaced")}},
                {"exit_code", "stdout", "stderr", "duration_ms", "timed_out", "session_id"});
}

std::string_view network_sentence(const config::Config& config) {
  switch (config.network.mode) {
    case config::NetworkMode::everything:
      return "Public hosts can be reached.";
    case config::NetworkMode::allow:
      return "Of the network only listed hosts can be reached, until allow_network has opened more.";
    case config::NetworkMode::none:
      break;
  }
  return "There is no network until allow_network has opened it.";
}

// Models read this before anything else.
std::string description(const config::Config& config) {
  return fmt::format(
      "Runs code in a secure sandbox and returns its output. Python and JavaScript keep variables, functions, classes "
      "and imports between calls in one session; the value of the last expression is returned, top-level await works, "
      "and plots are returned as images. Other languages run as programs, and so does code with stdin, args or env, "
      "which then does not see the session's variables. The working directory is /workspace: files are kept there "
      "between calls, and files that a run writes are returned as links. Without session_id, calls go to the "
      "connection's own session; pass a session_id to return to a session later (it ends after {} minutes without "
      "use). {} A run may take {} seconds unless timeout is set, at most {}. Of long output the beginning and the end "
      "are returned, and a link to all of it, up to {} of each stream.",
      std::chrono::duration_cast<std::chrono::minutes>(config.mcp.session_idle).count(), network_sentence(config),
      std::chrono::duration_cast<std::chrono::seconds>(config.mcp.timeout).count(),
      std::chrono::duration_cast<std::chrono::seconds>(config.exec.max_timeout).count(),
      format_size(config.mcp.output_bytes));
}

}  // namespace

Tool execute_tool(const config::Languages& languages, const config::Config& config) {
  Tool tool;
  tool.definition = {{"name", "execute_code"},
                     {"title", "Run code"},
                     {"description", description(config)},
                     {"inputSchema", input_schema(languages)},
                     {"outputSchema", output_schema()},
                     {"annotations",
                      {{"readOnlyHint", false},
                       {"destructiveHint", false},
                       {"idempotentHint", true},
                       {"openWorldHint", config.network.mode != config::NetworkMode::none},
                       {"supportsStreaming", true}}}};
  tool.run = execute;
  tool.tasks = TaskUse::optional;
  tool.allowed = allowed_time;
  return tool;
}

}  // namespace cove::doors::mcp
