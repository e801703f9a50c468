#include <fmt/format.h>

#include "base/clock.hpp"
#include "doors/mcp/arguments.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/run.hpp"
#include "doors/mcp/schema.hpp"
#include "doors/mcp/tool.hpp"
#include "doors/mcp/workplace.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Or;

constexpr std::size_t kMostLines = 2000;                       // as blocks of their own
constexpr std::size_t kMostBytes = std::size_t{1} << 20;       // of them together
constexpr std::size_t kMostStructured = std::size_t{1} << 20;  // of each stream beside them

Result<RunRequest> parse(const Workshop& workshop, const json::object& arguments) {
  RunRequest request;
  COVE_TRY(request.language, language_argument(arguments, workshop.languages));
  COVE_TRY(request.code, needed_text(arguments, "code"));
  COVE_TRY(request.filename, filename_argument(arguments, request.language));
  COVE_TRY(request.save, flag_argument(arguments, "save"));
  if (request.save && request.filename.empty()) request.filename = "main" + request.language.extensions.front();
  COVE_TRY(request.input, text_argument(arguments, "stdin"));
  COVE_TRY(request.arguments, texts_argument(arguments, "args"));
  COVE_TRY(request.variables, variables_argument(arguments, "env"));
  COVE_TRY(const auto seconds, number_argument(arguments, "timeout"));
  const auto& limits = workshop.services.config()->exec;
  request.timeout = limits.timeout;
  if (seconds && *seconds > 0) {
    const auto asked = std::chrono::duration<double, std::milli>(std::min(*seconds, 86400.0) * 1000);
    request.timeout = std::min(std::chrono::ceil<std::chrono::milliseconds>(asked), limits.max_timeout);
  }
  return request;
}

void add_lines(json::array& content, const Ran& ran, bool& cut) {
  std::size_t bytes = 0;
  std::size_t count = 0;
  for (const auto& line : ran.lines) {
    bytes += line.text.size();
    if (++count > kMostLines || bytes > kMostBytes) {
      cut = true;
      auto block = text_block(fmt::format("[{} more lines]", ran.lines.size() - count + 1));
      block["annotations"] = {{"role", "stderr"}, {"truncated", true}};
      content.push_back(std::move(block));
      return;
    }
    const auto* stream = line.stream == Line::Stream::out ? "stdout" : "stderr";
    auto block = text_block(line.text);
    block["annotations"] = {{"role", stream}, {"streamed", true}};
    block["_meta"] = {{"cove/stream", stream}, {"cove/seq", count - 1}};
    content.push_back(std::move(block));
  }
}

std::size_t lines_of(const Ran& ran, Line::Stream stream) {
  std::size_t count = 0;
  for (const auto& line : ran.lines) count += line.stream == stream ? 1 : 0;
  return count;
}

std::string shortened(const std::string& text, bool& cut) {
  if (text.size() <= kMostStructured) return text;
  cut = true;
  auto end = kMostStructured;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

// Two spaces deep, as clients search for `"exit_code": 0`.
std::string pretty(const json::object& object) {
  std::string out = "{";
  for (const auto& [name, value] : object) {
    out += fmt::format("{}\n  {}: {}", out.size() > 1 ? "," : "", json::serialize(json::value(name)),
                       json::serialize(value));
  }
  return out + "\n}";
}

json::object answer_of(const RunRequest& request, const Session& session, const Ran& ran, const std::string& code) {
  json::array content;
  auto source = text_block(code);
  source["mimeType"] = request.language.mime;
  source["annotations"] = {{"mime_type", request.language.mime}};
  content.push_back(std::move(source));
  bool lines_cut = false;
  add_lines(content, ran, lines_cut);
  if (ran.timed_out) {
    auto block = text_block("Execution timeout exceeded");
    block["annotations"] = {{"role", "stderr"}, {"timeout", true}};
    content.push_back(std::move(block));
  }
  if (ran.not_started) {
    auto block = text_block("Execution error: " + ran.note);
    block["annotations"] = {{"role", "error"}, {"exception", "not_started"}};
    content.push_back(std::move(block));
  }
  for (const auto& image : ran.images)
    content.push_back(json::object{{"type", "image"}, {"data", image.base64}, {"mimeType", image.mime}});
  const int exit_code = ran.not_started ? -1 : ran.exit_code;
  auto words = fmt::format("Exit code: {}\nExecution time: {:.2f}s", exit_code,
                           static_cast<double>(ran.duration.count()) / 1000);
  if (!request.filename.empty()) words += "\nFile: " + request.filename;
  words += "\nSession: " + session.id;
  if (!ran.note.empty() && !ran.not_started) words += "\nNote: " + ran.note;
  auto last = text_block(std::move(words));
  last["annotations"] = {{"final", true}};
  content.push_back(std::move(last));

  bool out_cut = ran.out_truncated;
  bool err_cut = ran.err_truncated;
  json::object structured{{"exit_code", exit_code},
                          {"signal", ran.signal.empty() ? json::value(nullptr) : json::value(ran.signal)},
                          {"stdout", shortened(ran.out, out_cut)},
                          {"stderr", shortened(ran.err, err_cut)},
                          {"duration_ms", ran.duration.count()},
                          {"timed_out", ran.timed_out},
                          {"truncated", {{"stdout", out_cut}, {"stderr", err_cut}}},
                          {"language", request.language.name},
                          {"session_id", session.id}};
  if (!request.filename.empty()) structured["filename"] = request.filename;
  if (!ran.images.empty()) structured["images"] = ran.images.size();
  if (!ran.error_type.empty()) structured["error"] = {{"type", ran.error_type}, {"message", ran.error_message}};
  auto summary = text_block(pretty({{"exit_code", exit_code},
                                    {"outputLines", lines_of(ran, Line::Stream::out)},
                                    {"errorLines", lines_of(ran, Line::Stream::err)},
                                    {"timestamp", iso_time(unix_millis())},
                                    {"session_id", session.id},
                                    {"timed_out", ran.timed_out},
                                    {"truncated", lines_cut || out_cut || err_cut}}));
  summary["mimeType"] = "application/json";
  summary["annotations"] = {{"role", "result"}, {"final", true}};
  content.push_back(std::move(summary));
  return {{"content", std::move(content)}, {"structuredContent", std::move(structured)}, {"isError", ran.not_started}};
}

Task<Or<>> execute(Workshop& workshop, Call& call, json::object arguments) {
  auto request = parse(workshop, arguments);
  if (!request) co_return sorry(request.error().message);
  const auto name = text_argument(arguments, "session_id");
  if (!name) co_return sorry(name.error().message);
  const auto reset = flag_argument(arguments, "reset_session");
  if (!reset) co_return sorry(reset.error().message);
  if (*reset) {
    const auto done = co_await workshop.sessions.reset(call, name->value_or(""), request->language.name);
    if (!done) co_return sorry(done.error().message);
  }
  auto session = co_await workshop.sessions.open(call, name->value_or(""), request->language.name);
  if (!session) co_return sorry(session.error().message);
  const auto ticket = co_await enter(workshop.services, call);
  if (!ticket) co_return sorry(ticket.error().message);
  const auto code = request->code;
  const auto asked = *request;
  const auto ran = co_await run(workshop.services, call, *session, std::move(*request));
  if (!ran) co_return sorry("Execution failed: " + ran.error().message);
  co_return answer_of(asked, *session, *ran, code);
}

}  // namespace

Tool execute_tool(const config::Languages& languages) {
  json::object nullable_text{{"type", json::array{"string", "null"}}};
  json::object whole{{"type", "integer"}};
  json::object flag{{"type", "boolean"}};
  json::object text{{"type", "string"}};
  Tool tool;
  tool.definition = {
      {"name", "execute_code"},
      {"title", "Run code"},
      {"description",
       "Runs code in a secure sandbox and returns its output. Python keeps its variables, functions and imports "
       "between calls, and the value of the last "
       "expression is returned; plots come back as images. Other languages run as programs that share a workspace. "
       "Files are in the working directory, "
       "/workspace, and stay there between calls of one session. Without session_id there is one session for each "
       "language; give a session_id to come back to it later. "
       "There is no network. Output is cut after 1 MiB a stream."},
      {"inputSchema",
       schema({{"language", language_property(languages, "")},
               {"code", property("string", "The source text")},
               {"filename", property("string", "Name of the file, with or without extension; may have directories")},
               {"session_id", property("string", "Name of the session; it is made when it is not there")},
               {"save", property("boolean", "Keep the file in the session's workspace")},
               {"reset_session", property("boolean", "Begin the session anew")},
               {"timeout", property("number", "Seconds the run may take")},
               {"stdin", property("string", "What the program reads; without it, nothing")},
               {"args", list_of({{"type", "string"}}, "Arguments of the program")},
               {"env", map_of_texts("Environment variables of the program")}},
              {"language", "code"})},
      {"outputSchema", schema({{"exit_code", whole},
                               {"signal", nullable_text},
                               {"stdout", text},
                               {"stderr", text},
                               {"duration_ms", whole},
                               {"timed_out", flag},
                               {"truncated", schema({{"stdout", flag}, {"stderr", flag}}, {})},
                               {"language", text},
                               {"session_id", text},
                               {"filename", text},
                               {"images", whole},
                               {"error", schema({{"type", text}, {"message", text}}, {})}},
                              {"exit_code", "stdout", "stderr", "duration_ms", "timed_out", "session_id"})},
      {"annotations",
       {{"readOnlyHint", false},
        {"destructiveHint", false},
        {"idempotentHint", true},
        {"openWorldHint", false},
        {"supportsStreaming", true}}}};
  tool.run = execute;
  tool.tasks = TaskUse::optional;
  tool.allowed = allowed_time;
  return tool;
}

}  // namespace cove::doors::mcp
