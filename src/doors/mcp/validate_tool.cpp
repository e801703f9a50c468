#include <fmt/format.h>

#include "base/text.hpp"
#include "doors/mcp/arguments.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/schema.hpp"
#include "doors/mcp/session_files.hpp"
#include "doors/mcp/tool.hpp"
#include "run/run.hpp"
#include "syntax/basic_check.hpp"
#include "syntax/checkers.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Or;

constexpr std::chrono::seconds kCheckTime{20};
constexpr std::size_t kMaxCode = std::size_t{1} << 20;
constexpr std::size_t kMaxBasic = std::size_t{256} << 10;  // checked on the event loop, so it must be quick
constexpr std::size_t kMaxOutput = std::size_t{64} << 10;
constexpr std::size_t kMaxDetails = 300;
constexpr int kNotExecutable = 126;  // of a shell
constexpr int kNotFound = 127;

struct Request {
  config::Language language;
  std::string code;
  std::string filename;  // "": none was given
  bool save = false;
  std::string session;
};

struct Judgement {
  bool valid = true;
  syntax::Finding finding;
  std::string basic_because;  // "": a checker of the language has read the code
};

Result<Request> parse(const ToolContext& context, const json::object& arguments) {
  Request request;
  COVE_TRY(request.language, language_argument(arguments, context.languages));
  COVE_TRY(request.code, required_text(arguments, "code"));
  if (request.code.size() > kMaxCode)
    return fail(Errc::invalid, fmt::format("Invalid argument: code is larger than {} bytes", kMaxCode));
  COVE_TRY(request.filename, filename_argument(arguments, request.language));
  COVE_TRY(request.save, flag_argument(arguments, "save"));
  COVE_TRY(const auto session, text_argument(arguments, "session_id"));
  request.session = session.value_or("");
  return request;
}

// --- by the language's own checker

struct CheckerRun {
  sandbox::ProcessEnd end;
  std::string output;
};

Task<Result<CheckerRun>> run_checker(Call& call, std::shared_ptr<sandbox::Sandbox> sandbox,
                                     std::vector<std::string> command, std::string file, std::string code) {
  run::Spec spec{.code = run::Command{.argv = config::command_line(command, file)},
                 .process = {.timeout = kCheckTime, .output_limit = kMaxOutput, .whole = true},
                 .when_gone = run::WhenGone::stop};
  spec.process.files.push_back({.path = "/workspace/" + file, .mode = 0644, .content = std::move(code)});
  auto run = co_await run::Run::begin(caller_of(call), std::move(sandbox), std::move(spec));
  if (!run) co_return tl::unexpected<Error>(run.error());
  co_await run->wait();
  CheckerRun said{.end = run->end(), .output = run->process()->text_of(sandbox::Event::Kind::err)};
  said.output += "\n" + run->process()->text_of(sandbox::Event::Kind::out);
  // Some checkers print the name they were given, some the full path.
  constexpr std::string_view kPlace = "/workspace/";
  for (auto at = said.output.find(kPlace); at != std::string::npos; at = said.output.find(kPlace, at))
    said.output.erase(at, kPlace.size());
  co_return said;
}

// Some checkers exit with the same code for a syntax error, but name a line then.
bool is_missing(const sandbox::ProcessEnd& end, const syntax::Finding& finding) {
  return end.reason == sandbox::Reason::not_started ||
         ((end.exit_status == kNotExecutable || end.exit_status == kNotFound) && !finding.line);
}

std::string no_checker(const config::Language& language) {
  return fmt::format("no checker for {} is installed (package {})", syntax::checker_of(language.name).label,
                     language.package);
}

Result<Judgement> judge(const Request& request, const syntax::Checker& checker, const std::string& file,
                        const CheckerRun& said) {
  Judgement judgement;
  const auto& end = said.end;
  auto finding = syntax::read_finding(checker, file, said.output);
  if (is_missing(end, finding)) {
    judgement.basic_because = no_checker(request.language);
  } else if (end.reason == sandbox::Reason::timeout) {
    return fail(Errc::over_limit, fmt::format("the syntax check took longer than {} s", kCheckTime.count()));
  } else if (end.reason != sandbox::Reason::exited) {
    return fail(Errc::io, fmt::format("the syntax check failed: {}", name_of(end.reason)));
  } else if (end.exit_status == 0) {
    judgement.valid = true;
  } else if (!checker.no_fault.empty() && said.output.find(checker.no_fault) != std::string::npos) {
    judgement.basic_because = "a module that the code uses is not installed";
  } else {
    judgement.valid = false;
    judgement.finding = std::move(finding);
  }
  return judgement;
}

Task<Result<Judgement>> judge_by_program(ToolContext& context, Call& call, const Request& request) {
  const auto& checker = syntax::checker_of(request.language.name);
  if (checker.patterns.empty() || request.language.check.empty()) {
    Judgement none{.basic_because = no_checker(request.language)};
    co_return none;
  }
  // In a throwaway sandbox: side effects of a checker go with it, and a session cannot replace the checker by a program
  // of its own.
  if (context.services.draining()) co_return fail(Errc::unavailable, "the server is shutting down");
  run::Throwaway wanted{.prefix = "work", .limits = run::default_limits(*context.services.config())};
  const auto lease = co_await run::acquire(context.services, principal_of(call), std::move(wanted));
  if (!lease) co_return tl::unexpected<Error>(lease.error());
  std::vector<std::string> extensions(checker.extensions.begin(), checker.extensions.end());
  if (extensions.empty()) extensions.push_back(request.language.extensions.front());
  std::optional<Judgement> worst;
  for (const auto& extension : extensions) {
    const auto file = "main" + extension;
    const auto said = co_await run_checker(call, lease->sandbox(), request.language.check, file, request.code);
    if (!said) co_return tl::unexpected<Error>(said.error());
    auto judgement = judge(request, checker, file, *said);
    if (!judgement || judgement->valid) co_return judgement;
    // The attempt that got furthest names the real error.
    if (!worst || judgement->finding.line > worst->finding.line) worst = std::move(*judgement);
  }
  co_return std::move(*worst);
}

// --- by its structure

Result<Judgement> judge_by_structure(const Request& request, std::string because) {
  if (request.code.size() > kMaxBasic)
    return fail(Errc::over_limit,
                fmt::format("{}, and without one at most {} bytes can be checked", because, kMaxBasic));
  Judgement judgement{.basic_because = std::move(because)};
  const auto problem = syntax::basic_check(request.language.name, request.code);
  if (!problem) return judgement;
  judgement.valid = false;
  judgement.finding = {.line = problem->line, .column = problem->column, .message = problem->message};
  return judgement;
}

// --- the answer

std::string line_of(std::string_view code, std::size_t number) {
  for (; number > 1; --number) take_until(code, '\n');
  auto line = take_until(code, '\n');
  const auto from = line.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return {};
  line = line.substr(from, line.find_last_not_of(" \t\r") - from + 1).substr(0, kMaxDetails);
  line.remove_suffix(unfinished_utf8(line));
  return std::string(line);
}

json::object facts_of(const Request& request, const Judgement& judgement) {
  json::object facts{{"valid", judgement.valid},
                     {"language", request.language.name},
                     {"checked", judgement.basic_because.empty() ? "full" : "basic"}};
  if (!request.filename.empty()) facts["filename"] = request.filename;
  if (judgement.valid) return facts;
  if (judgement.finding.line) facts["line"] = *judgement.finding.line;
  if (judgement.finding.column) facts["column"] = *judgement.finding.column;
  facts["message"] = judgement.finding.message;
  return facts;
}

std::string basic_check_note(const Judgement& judgement) {
  if (judgement.basic_because.empty()) return {};
  return fmt::format(". Only brackets, strings, comments and block keywords were checked: {}", judgement.basic_because);
}

json::object invalid(const Request& request, Judgement judgement) {
  const auto& checker = syntax::checker_of(request.language.name);
  auto& finding = judgement.finding;
  const auto details = finding.line ? line_of(request.code, *finding.line) : std::string();
  if (checker.hash_is_no_comment && details.starts_with('#') && !details.starts_with("#!"))
    finding.message = fmt::format("'#' is not comment syntax in {}; use // or /* */ instead", checker.label);
  auto text = finding.line
                  ? fmt::format("{} syntax error on line {}: {}", checker.label, *finding.line, finding.message)
                  : fmt::format("{} syntax error: {}", checker.label, finding.message);
  if (!details.empty()) text += "\nDetails: " + details;
  if (!judgement.basic_because.empty()) text += "\nNote" + basic_check_note(judgement).replace(0, 1, ":");
  if (request.save) text += "\nThe file was not saved.";
  json::object notes{{"status", "invalid"}};
  if (finding.line) notes["line"] = *finding.line;
  if (finding.column) notes["column"] = *finding.column;
  if (!judgement.basic_because.empty()) notes["checked"] = "basic";
  auto block = text_block(std::move(text));
  block["annotations"] = std::move(notes);
  return {{"content", json::array{std::move(block)}},
          {"structuredContent", facts_of(request, judgement)},
          {"isError", true}};
}

struct Saved {
  std::string session;
  std::string path;
};

Task<Result<Saved>> save(ToolContext& context, Call& call, const Request& request) {
  const auto session = co_await context.sessions.open(call, request.session, request.language.name);
  if (!session) co_return tl::unexpected<Error>(session.error());
  const auto path = request.filename.empty() ? "main" + request.language.extensions.front() : request.filename;
  SessionFiles files(*session, call);
  const auto written = co_await files.write(path, request.code, sandbox::WriteMode::replace);
  if (!written) co_return fail(written.error().code, file_error_text(written.error()));
  co_return Saved{.session = session->id, .path = path};
}

json::object valid(const Request& request, const Judgement& judgement, const std::optional<Saved>& saved) {
  auto facts = facts_of(request, judgement);
  std::string text = "Syntax validation successful";
  if (!request.filename.empty()) text += " for " + request.filename;
  if (saved) {
    text += fmt::format(" (saved to /workspace/{})", saved->path);
    facts["saved"] = saved->path;
    facts["session_id"] = saved->session;
  }
  text += basic_check_note(judgement);
  auto block = text_block(std::move(text));
  json::object notes{{"status", "valid"}};
  if (!judgement.basic_because.empty()) notes["checked"] = "basic";
  block["annotations"] = std::move(notes);
  auto source = text_block(request.code);
  source["mimeType"] = request.language.mime;
  source["annotations"] = {{"mime_type", request.language.mime}};
  json::array content{std::move(block), std::move(source)};
  if (saved) content.push_back(link_block(saved->session, saved->path, request.code.size()));
  return {{"content", std::move(content)}, {"structuredContent", std::move(facts)}, {"isError", false}};
}

Task<Or<>> validate(ToolContext& context, Call& call, json::object arguments) {
  const auto request = parse(context, arguments);
  if (!request) co_return tool_error(request.error().message);
  const auto ticket = co_await run::admit(context.services, caller_of(call));
  if (!ticket) co_return tool_error("Validation error: " + ticket.error().message);
  auto judgement = co_await judge_by_program(context, call, *request);
  if (judgement && !judgement->basic_because.empty())
    judgement = judge_by_structure(*request, std::move(judgement->basic_because));
  if (!judgement) co_return tool_error("Validation error: " + judgement.error().message);
  if (!judgement->valid) co_return invalid(*request, std::move(*judgement));
  std::optional<Saved> saved;
  if (request->save) {
    auto done = co_await save(context, call, *request);
    if (!done) co_return tool_error("The syntax is valid, but the file was not saved: " + done.error().message);
    saved = std::move(*done);
  }
  co_return valid(*request, *judgement, saved);
}

}  // namespace

Tool validate_tool(const config::Languages& languages) {
  Tool tool;
  tool.definition = {
      {"name", "validate_code"},
      {"title", "Check syntax"},
      {"description",
       "Checks the syntax of code without running it, and reports the line of the first error. With save, valid code "
       "is written to filename in the session's workspace, /workspace, where execute_code in the same session finds "
       "it; this is how to build a program of several files. At most 1 MiB of code; takes at most 20 seconds."},
      {"inputSchema",
       schema({{"language", language_property(languages, "")},
               {"code", property("string", "The source text")},
               {"filename", property("string", "File name, with or without extension; may include directories")},
               {"save", property("boolean", "Write valid code to the file in the session's workspace")},
               {"session_id",
                property("string", "The session to save into; without it, the default session of the language")}},
              {"language", "code"})},
      {"outputSchema",
       schema({{"valid", property("boolean", "")},
               {"language", property("string", "")},
               {"checked", one_of({"full", "basic"}, "basic: only brackets, strings, comments and block keywords")},
               {"line", property("integer", "Line of the first error")},
               {"column", property("integer", "Column of the first error, counted from 1, if known")},
               {"message", property("string", "The error message")},
               {"filename", property("string", "")},
               {"saved", property("string", "Path of the saved file, relative to /workspace")},
               {"session_id", property("string", "The session whose workspace holds the saved file")}},
              {"valid", "language", "checked"})},
      {"annotations", annotations({.read_only = true, .idempotent = true})}};
  tool.run = validate;
  return tool;
}

}  // namespace cove::doors::mcp
