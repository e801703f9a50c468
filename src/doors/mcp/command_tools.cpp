#include <fmt/format.h>

#include "base/text.hpp"
#include "doors/mcp/arguments.hpp"
#include "doors/mcp/client_form.hpp"
#include "doors/mcp/content.hpp"
#include "doors/mcp/excerpt.hpp"
#include "doors/mcp/output_reporter.hpp"
#include "doors/mcp/run.hpp"
#include "doors/mcp/schema.hpp"
#include "doors/mcp/tool.hpp"
#include "run/run.hpp"
#include "sandbox/name.hpp"

namespace cove::doors::mcp {
namespace {

namespace json = boost::json;
using cove::mcp::Call;
using cove::mcp::Or;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPollInterval{100};
constexpr std::chrono::seconds kEndTime{10};  // that stop_process waits for the end
// Of each stream. An answer has it twice, and JSON may need six bytes for one.
constexpr std::size_t kMaxOutput = std::size_t{256} << 10;
// MAX_ARG_STRLEN: the kernel's limit for one argument.
constexpr std::size_t kMaxCommand = (std::size_t{128} << 10) - 1;
constexpr std::size_t kMaxInput = std::size_t{4} << 20;
constexpr std::uint64_t kMaxWait = 60;  // seconds
constexpr std::uint64_t kMaxBackgroundSeconds = 604'800;

struct CommandRequest {
  SessionArgument session;
  std::string command;
  std::vector<std::string> variables;
  std::optional<std::string> input;
  std::optional<milliseconds> timeout;
  bool background = false;
};

Result<CommandRequest> parse(const ToolContext& context, const json::object& arguments) {
  CommandRequest request;
  COVE_TRY(request.session, session_argument(arguments, context.languages));
  COVE_TRY(request.command, required_text(arguments, "command"));
  if (request.command.size() > kMaxCommand)
    return fail(Errc::invalid, fmt::format("Invalid argument: command is larger than {} bytes: write it to a file with "
                                           "write_file and run that file",
                                           kMaxCommand));
  if (request.command.empty()) return fail(Errc::invalid, "Invalid argument: command is empty");
  if (request.command.find('\0') != std::string::npos)
    return fail(Errc::invalid, "Invalid argument: command contains a NUL");
  COVE_TRY(request.variables, variables_argument(arguments, "env"));
  COVE_TRY(request.input, text_argument(arguments, "stdin"));
  if (request.input && request.input->size() > kMaxInput)
    return fail(Errc::invalid, fmt::format("Invalid argument: stdin is larger than {} bytes", kMaxInput));
  COVE_TRY(request.background, flag_argument(arguments, "background"));
  COVE_TRY(const auto seconds, seconds_argument(arguments, "timeout"));
  if (!request.background) {
    request.timeout = allowed_time(context, arguments);
  } else if (seconds) {
    const std::chrono::duration<double> asked(std::min(*seconds, static_cast<double>(kMaxBackgroundSeconds)));
    request.timeout = std::chrono::ceil<milliseconds>(asked);
  }
  return request;
}

run::Spec spec_of(CommandRequest request, const Call& call, std::uint64_t max_output) {
  auto variables = trace_variables(call);
  variables.insert(variables.end(), request.variables.begin(), request.variables.end());
  run::Spec spec{.code = run::Command{.argv = {"bash", "-c", std::move(request.command)}},
                 .process = {.variables = std::move(variables), .timeout = request.timeout},
                 .input = std::move(request.input),
                 .when_gone = run::WhenGone::stop};
  if (request.background)
    spec.process.kind = sandbox::ProcessKind::background;
  else
    spec.process.output_limit = max_output, spec.process.kept = wire::Kept::both_ends,
    spec.process.delivery = sandbox::Delivery::everything;
  return spec;
}

// The output of a process, as far as it was read.
struct Output {
  std::string out;
  std::string err;

  void add(const sandbox::Event& event) {
    if (event.kind == sandbox::Event::Kind::out) out += event.bytes;
    if (event.kind == sandbox::Event::Kind::err) err += event.bytes;
  }
  [[nodiscard]] std::size_t size() const { return out.size() + err.size(); }
};

void add_end(json::object& facts, const sandbox::Process& process) {
  facts["state"] = process.end() ? "exited" : "running";
  if (!process.end()) return;
  const auto& end = *process.end();
  const bool timed_out = end.reason == sandbox::Reason::timeout;
  facts["exit_code"] = timed_out ? -1 : end.exit_status;
  facts["signal"] = end.signal == 0 || timed_out ? json::value(nullptr) : json::value(guest::signal_name(end.signal));
  facts["timed_out"] = timed_out;
  facts["duration_ms"] = end.wall.count();
  if (end.oom_kills > 0) facts["oom_kills"] = end.oom_kills;
  if (end.pids_refused > 0) facts["forks_refused"] = end.pids_refused;
  if (!end.note.empty()) facts["note"] = end.note;
}

// Output as in a terminal, then how the process ended.
std::string end_text(const json::object& facts) {
  std::string text;
  for (const auto* stream : {"stdout", "stderr"}) {
    const auto* written = facts.if_contains(stream);
    if (written == nullptr || written->as_string().empty()) continue;
    text += std::string(written->as_string());
    if (!text.ends_with('\n')) text += '\n';
  }
  if (const auto* code = facts.if_contains("exit_code")) text += fmt::format("Exit code: {}", code->as_int64());
  if (facts.at("state") == "running") text += "Still running.";
  if (const auto* late = facts.if_contains("timed_out"); late != nullptr && late->as_bool())
    text += " (timeout: the timeout argument allows more)";
  if (const auto* note = facts.if_contains("note"))
    text += fmt::format("\nNote: {}", std::string_view(note->as_string()));
  return text;
}

json::object finished(ToolContext& context, const Call& call, const Session& session, const sandbox::Process& process,
                      const RunRecord& output, const std::string& refused) {
  const auto& kept = *output.kept;
  const StreamText whole_out(output.out);
  const StreamText whole_err(output.err);
  auto out = all_of(whole_out);
  auto err = all_of(whole_err);
  if (!reads_old_form(call)) {
    const auto shares = share(whole_out.size(), whole_err.size(), context.services.config()->mcp.answer_bytes);
    out = excerpt(whole_out, shares.first, execution_uri(kept.id(), "stdout"), kept.out.left_out());
    err = excerpt(whole_err, shares.second, execution_uri(kept.id(), "stderr"), kept.err.left_out());
  }
  json::object facts{{"session_id", session.id}, {"truncated", {{"stdout", out.cut}, {"stderr", err.cut}}}};
  if (out.cut || err.cut) {
    facts["execution_id"] = kept.id();
    context.outputs.keep(output.kept);
  }
  facts["stdout"] = std::move(out.text);
  facts["stderr"] = std::move(err.text);
  add_end(facts, process);
  auto text = end_text(facts);
  if (kept.out.left_out() + kept.err.left_out() > 0)
    text += "\nNot all of the output is kept: redirect it to a file and read the file.";
  if (!refused.empty()) text += "\n" + refused + ".";
  return answer(text + "\nSession: " + session.id, std::move(facts));
}

json::object begun(const Session& session, const sandbox::Process& process) {
  const auto id = sandbox::process_id(process.number());
  return answer(
      fmt::format("Process {} is running. Read its output with process_output, stop it with stop_process.\nSession: {}",
                  id, session.id),
      {{"session_id", session.id}, {"state", "running"}, {"process_id", id}});
}

json::object not_started(const sandbox::Process& process) {
  return tool_error(fmt::format("The command could not be started: {}", process.end()->note));
}

bool failed_to_start(const sandbox::Process& process) {
  return process.end() && process.end()->reason == sandbox::Reason::not_started;
}

Task<Or<>> run_in_background(ToolContext& context, Call& call, const Session& session, CommandRequest request) {
  if (const auto allowed = run::admit_background(context.services, principal_of(call)); !allowed)
    co_return tool_error(allowed.error().message);
  auto spec = spec_of(std::move(request), call, 0);
  spec.process.abandoned = [&call] { return call.cancelled(); };
  spec.actor = journal::actor_of(principal_of(call));
  const auto started = co_await run::start(session.sandbox, std::move(spec));
  if (!started) co_return tool_error(started.error().message);
  if (!failed_to_start(**started)) co_return begun(session, **started);
  session.sandbox->forget(*started);
  co_return not_started(**started);
}

Task<Or<>> run_command(ToolContext& context, Call& call, json::object arguments) {
  auto request = parse(context, arguments);
  if (!request) co_return tool_error(request.error().message);
  const auto session = co_await context.sessions.open(call, request->session.name, request->session.language);
  if (!session) co_return tool_error(session.error().message);
  if (request->background) co_return co_await run_in_background(context, call, *session, std::move(*request));
  const auto ticket = co_await run::admit(context.services, caller_of(call));
  if (!ticket) co_return tool_error(ticket.error().message);
  auto spec = spec_of(std::move(*request), call, context.services.config()->mcp.output_bytes);
  const auto begun = Clock::now();
  auto run = co_await run::Run::begin(caller_of(call), session->sandbox, std::move(spec));
  if (!run) co_return tool_error(run.error().message);
  if (failed_to_start(*run->process())) co_return not_started(*run->process());
  RunRecord output;
  OutputReporter reporter(call, output, begin_output(context, call), kMaxOutput, "run_command");
  co_await read_to_end(*run, reporter);
  reporter.finish(RecentOutputs::Output::Written{.out = run->end().out_bytes, .err = run->end().err_bytes});
  auto said = output.err.beginning() + output.err.end() + output.out.beginning() + output.out.end();
  const auto refused = co_await refused_connections(context, session->sandbox, begun, std::move(said));
  co_return finished(context, call, *session, *run->process(), output, refused);
}

// --- background processes

struct FoundProcess {
  std::shared_ptr<sandbox::Sandbox> sandbox;
  std::shared_ptr<sandbox::Process> process;
};

// Does not take the session's lock: the process that is asked about may be what holds it.
Task<Result<FoundProcess>> find_process(ToolContext& context, const Call& call, const json::object& arguments) {
  const auto target = session_argument(arguments, context.languages);
  if (!target) co_return tl::unexpected<Error>(target.error());
  const auto id = required_text(arguments, "process_id");
  if (!id) co_return tl::unexpected<Error>(id.error());
  auto found = co_await context.sessions.find(call, target->name, target->language);
  if (!found) co_return tl::unexpected<Error>(found.error());
  const auto number = sandbox::process_number(*id);
  auto process = number ? (*found)->find_process(*number) : nullptr;
  const bool shown = process && (process->request().kind == sandbox::ProcessKind::background ||
                                 process->request().kind == sandbox::ProcessKind::exec);
  if (!shown)
    co_return fail(Errc::not_found,
                   fmt::format("Unknown process: {}. run_command with background returns the process_id.", *id));
  co_return FoundProcess{.sandbox = *found, .process = std::move(process)};
}

json::object output_answer(const FoundProcess& found, std::uint64_t from, std::size_t max_output) {
  const auto& process = *found.process;
  Output output;
  auto next = std::max(from, process.first_sequence());
  bool more = false;
  for (const auto& event : process.events()) {
    if (event.sequence < next) continue;
    // The end of the process is an event without bytes: it is no output that would wait for the next answer.
    if (!event.bytes.empty() && output.size() > 0 && output.size() + event.bytes.size() > max_output) {
      more = true;
      break;
    }
    output.add(event);
    next = event.sequence + 1;
  }
  json::object facts{{"session_id", found.sandbox->name()},
                     {"process_id", sandbox::process_id(process.number())},
                     {"stdout", replace_invalid_utf8(output.out)},
                     {"stderr", replace_invalid_utf8(output.err)},
                     {"next", next},
                     {"more", more},
                     {"lost", from < process.first_sequence()}};
  add_end(facts, process);
  auto text = end_text(facts);
  if (from < process.first_sequence()) text = "[earlier output has been discarded]\n" + text;
  if (more) text += "\nMore output is already available.";
  text += fmt::format("\nContinue with from: {}", next);
  return answer(std::move(text), std::move(facts));
}

Task<Or<>> process_output(ToolContext& context, Call& call, json::object arguments) {
  const auto from = integer_argument(arguments, "from", {.min = 1, .max = std::uint64_t{1} << 50});
  if (!from) co_return tool_error(from.error().message);
  const auto wait = number_argument(arguments, "wait_seconds");
  if (!wait) co_return tool_error(wait.error().message);
  const auto seconds = wait->value_or(0);
  if (!(seconds >= 0) || seconds > static_cast<double>(kMaxWait))
    co_return tool_error(fmt::format("Invalid argument: wait_seconds must be from 0 to {}", kMaxWait));
  const auto found = co_await find_process(context, call, arguments);
  if (!found) co_return tool_error(found.error().message);
  const sandbox::Sandbox::Activity activity(found->sandbox);
  const auto first = from->value_or(1);
  const auto until = Clock::now() + std::chrono::ceil<milliseconds>(std::chrono::duration<double>(seconds));
  // The first event only says that the process has started.
  while (found->process->last_sequence() < std::max<std::uint64_t>(first, 2) && !found->process->end() &&
         Clock::now() < until && !call.cancelled()) {
    co_await found->process->changed().wait_until(std::min(until, Clock::now() + kPollInterval));
  }
  const auto max_output = reads_old_form(call) ? 2 * kMaxOutput : context.services.config()->mcp.answer_bytes;
  co_return output_answer(*found, first, max_output);
}

Task<Or<>> stop_process(ToolContext& context, Call& call, json::object arguments) {
  const auto found = co_await find_process(context, call, arguments);
  if (!found) co_return tool_error(found.error().message);
  if (!found->process->end() && found->sandbox->state() == sandbox::State::paused)
    co_return tool_error("The session is paused: its processes cannot be stopped.");
  found->process->stop(sandbox::Reason::cancelled);
  const auto until = Clock::now() + kEndTime;
  while (!found->process->end() && Clock::now() < until)
    co_await found->process->changed().wait_until(std::min(until, Clock::now() + kPollInterval));
  found->sandbox->touch();
  json::object facts{{"session_id", found->sandbox->name()},
                     {"process_id", sandbox::process_id(found->process->number())}};
  add_end(facts, *found->process);
  co_return answer(end_text(facts), std::move(facts));
}

json::object process_property() {
  return property("string", "The process_id that run_command returned, for example p1");
}

// The schema of an answer that may say how a process ended; see add_end().
json::object end_schema(Properties properties, Names required) {
  return with_properties(schema(properties, required),
                         {{"state", one_of({"running", "exited"}, "")},
                          {"exit_code", property("integer", "-1 after a timeout")},
                          {"signal", nullable("string", "The signal that ended the process")},
                          {"timed_out", property("boolean", "")},
                          {"duration_ms", property("integer", "")},
                          {"oom_kills", property("integer", "Processes that were killed for memory")},
                          {"forks_refused", property("integer", "Forks over the process limit")},
                          {"note", property("string", "Which limit was met, or why the process ended")}});
}

}  // namespace

Tool run_command_tool(const config::Languages& languages) {
  Tool tool;
  tool.definition = {
      {"name", "run_command"},
      {"title", "Run a shell command"},
      {"description",
       "Runs a command with bash in the session's workspace, /workspace, and returns its output and exit code. Files "
       "are kept between calls; shell variables and the current directory are not. "
       "Without stdin, standard input is empty. With background, the call returns at once with a process_id and the "
       "command keeps running: use this for servers and long jobs."},
      {"inputSchema",
       session_schema(
           languages,
           {{"command", property("string", "The command line, as for bash -c")},
            {"timeout", property("number", "Time limit in seconds; a background process has none by default")},
            {"env", map_of_strings("Environment variables")},
            {"stdin", property("string", "Standard input")},
            {"background", property("boolean", "Return at once and keep the command running")}},
           {"command"})},
      {"outputSchema",
       end_schema(
           {{"session_id", property("string", "")},
            {"process_id", property("string", "Only for a background process")},
            {"stdout", property("string", "")},
            {"stderr", property("string", "")},
            {"truncated", schema({{"stdout", property("boolean", "")}, {"stderr", property("boolean", "")}}, {})},
            {"execution_id", property("string", "For output that did not fit: execution://ID/stdout has all of it")}},
           {"session_id", "state"})},
      {"annotations", annotations({.destructive = true})}};
  tool.run = run_command;
  tool.tasks = TaskUse::optional;
  tool.allowed = allowed_time;
  return tool;
}

Tool process_output_tool(const config::Languages& languages) {
  Tool tool;
  tool.definition = {
      {"name", "process_output"},
      {"title", "Output of a process"},
      {"description",
       "Returns what a background process has written since `from`, and whether it is still running. Pass `next` from "
       "the answer as `from` in the next call. wait_seconds waits for new output."},
      {"inputSchema", session_schema(languages,
                                     {{"process_id", process_property()},
                                      {"from", property("integer", "Where to start; the beginning if omitted")},
                                      {"wait_seconds", property("number", "Seconds to wait for new output: 0 to 60")}},
                                     {"process_id"})},
      {"outputSchema", end_schema({{"session_id", property("string", "")},
                                   {"process_id", property("string", "")},
                                   {"stdout", property("string", "")},
                                   {"stderr", property("string", "")},
                                   {"next", property("integer", "Pass this as `from` in the next call")},
                                   {"more", property("boolean", "More output is already available")},
                                   {"lost", property("boolean", "Earlier output has been discarded")}},
                                  {"session_id", "process_id", "state", "stdout", "stderr", "next"})},
      {"annotations", annotations({.read_only = true, .idempotent = true})}};
  tool.run = process_output;
  return tool;
}

Tool stop_process_tool(const config::Languages& languages) {
  Tool tool;
  tool.definition = {
      {"name", "stop_process"},
      {"title", "Stop a process"},
      {"description", "Stops a background process and everything it started. Its output can still be read."},
      {"inputSchema", session_schema(languages, {{"process_id", process_property()}}, {"process_id"})},
      {"outputSchema", end_schema({{"session_id", property("string", "")}, {"process_id", property("string", "")}},
                                  {"session_id", "process_id", "state"})},
      {"annotations", annotations({.destructive = true, .idempotent = true})}};
  tool.run = stop_process;
  return tool;
}

}  // namespace cove::doors::mcp
