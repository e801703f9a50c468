#include <ctime>

#include "base/random.hpp"
#include "doors/workspace/answers.hpp"
#include "sandbox/helper.hpp"
#include "sandbox/lease.hpp"
#include "sandbox/program.hpp"
#include "sandbox/shown_output.hpp"

namespace cove::doors::workspace {
namespace {

using sandbox::Process;

constexpr std::size_t kOutputsLimit = 4U << 20;  // of the variables a script is asked for
constexpr std::size_t kWordLimit = 128U << 10;   // of one word of a command line, as the kernel has it
constexpr std::string_view kFailed = "Failed to execute command";

bool has_nul(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) { return word.find('\0') != std::string::npos; });
}

// What a command line cannot be; "" when it can.
std::string unusable(const std::vector<std::string>& words) {
  if (has_nul(words)) return "Error: NUL cannot be part of a command line";
  const auto long_one = [](const std::string& word) { return word.size() >= kWordLimit; };
  if (std::ranges::any_of(words, long_one)) return "Error: a word of a command line has at most 131071 bytes";
  return "";
}

sandbox::ProcessRequest process_request(const config::Config& config, const http::Exchange& exchange) {
  const auto limit = config.exec.output_limit_bytes;
  return {.variables = {"HOME=/workspace", "PYTHONPATH=/workspace"},
          .timeout = config.workspace.timeout,
          .output_limit = limit,
          .history = 2 * limit + kOutputsLimit + (1U << 20),
          .abandoned = gone(exchange),
          .whole = true};
}

// stdout loses its newlines at the end, stderr has exactly one there.
std::string stripped(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::string members_of(const Process& process) {
  const auto& end = *process.end();
  const auto limit = process.request().output_limit;
  auto out = stripped(sandbox::shown_output(process, sandbox::Event::Kind::out));
  auto err = sandbox::with_last_words(process, sandbox::shown_output(process, sandbox::Event::Kind::err));
  const bool never_ran = end.reason == sandbox::Reason::not_started || end.reason == sandbox::Reason::pids;
  if (never_ran && err.empty()) err = end.note;
  const bool ended_by_others = end.reason == sandbox::Reason::sandbox_gone || end.reason == sandbox::Reason::cancelled;
  auto members = fmt::format(R"("stdout":{},"stderr":{},"returncode":{},"exit_code":{},"reason":"{}")", json_text(out),
                             json_text(stripped(std::move(err)) + "\n"), ended_by_others ? 137 : end.exit_status,
                             ended_by_others ? 137 : end.exit_status, name_of(end.reason));
  if (end.out_bytes > limit) members += R"(,"stdout_truncated":true)";
  if (end.err_bytes > limit) members += R"(,"stderr_truncated":true)";
  return members;
}

// The variables a script told of at its end; {} when it did not come that far.
std::string outputs_of(const Process& process) {
  const auto message = sandbox::last_message(process, kOutputsLimit);
  const auto parsed = fastapi::parse_json(message.value_or("null"));
  const auto* value = std::get_if<Value>(&parsed);
  const auto* outputs = value == nullptr ? nullptr : value->member("outputs");
  if (outputs != nullptr && outputs->kind == Value::Kind::object)
    return fmt::format(R"(,"output_variables":{})", to_json(*outputs));
  constexpr std::string_view kTooLarge =
      R"(,"output_variables_error":"they are more than 4 MiB or 100000 values, or cannot be told")";
  const auto& end = *process.end();
  const bool whole = end.reason == sandbox::Reason::exited && end.exit_status == 0;
  return fmt::format(R"(,"output_variables":{{}}{})", whole ? kTooLarge : "");
}

// Something to be started in a session, once it may.
using Start = std::function<Task<Result<std::shared_ptr<Process>>>(const Session&, sandbox::ProcessRequest)>;

Task<> run(Services& services, http::Exchange& exchange, Start start, std::function<std::string(const Process&)> more) {
  const auto config = services.config();
  const auto session = co_await open_session(services, exchange);
  if (!session) co_return co_await send(exchange, session.error());
  const auto ticket = co_await take_turn(services, exchange);
  if (!ticket) co_return co_await send(exchange, answer_to(ticket.error(), kFailed, *config));
  if (exchange.client_gone()) co_return;
  auto request = process_request(*config, exchange);
  auto started = co_await start(*session, std::move(request));
  if (!started) co_return co_await send(exchange, answer_to(started.error(), kFailed, *config));
  const auto process = *started;
  const sandbox::Attended attended(session->sandbox, process);
  if (!co_await wait_for_end(exchange, *process)) co_return;
  co_await send(exchange, envelope(members_of(*process) + more(*process)));
}

std::string nothing_more(const Process& /*process*/) {
  return "";
}

// The command is a line of a shell; its arguments are words, whatever is in them.
Task<> execute(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  const auto body = co_await read_value(services, exchange);
  if (!body) co_return co_await send(exchange, body.error());
  auto parsed = parse_command(*body);
  if (const auto* problems = std::get_if<Problems>(&parsed))
    co_return co_await send(exchange, fastapi::wrong(*problems));
  auto& request = std::get<CommandRequest>(parsed);
  if (!request.arguments.empty()) request.command += " \"$@\"";
  std::vector<std::string> words{"/bin/bash", "-c", "--", std::move(request.command), "bash"};
  for (auto& argument : request.arguments) words.push_back(std::move(argument));
  if (const auto why = unusable(words); !why.empty())
    co_return co_await send(exchange, mistake({.message = kFailed, .detail = why}, *config));
  const Start start = [&words](const Session& session, sandbox::ProcessRequest process) {
    process.argv = std::move(words);
    return session.sandbox->start(std::move(process));
  };
  co_await run(services, exchange, start, nothing_more);
}

// Left in the session, as its caller expects; a full disk does not keep a script from running.
Task<Result<>> write_script(const Session& session, std::string path, std::string code,
                            std::function<bool()> abandoned) {
  std::vector<std::string> arguments{"--within", "/workspace", "write", "/workspace/" + path, "0755"};
  auto helper = co_await sandbox::Helper::start(session.sandbox, std::move(arguments), std::move(abandoned));
  if (!helper) co_return tl::unexpected<Error>(helper.error());
  if (co_await (*helper)->write(std::move(code))) (*helper)->end_input();
  const auto written = co_await (*helper)->finish();
  if (!written) co_return tl::unexpected<Error>(written.error());
  co_return Result<>();
}

Task<Result<std::shared_ptr<Process>>> start_shell(const Session& session, ScriptRequest request, std::string path,
                                                   sandbox::ProcessRequest process) {
  const auto written = co_await write_script(session, path, request.code, process.abandoned);
  const bool full = !written && written.error().code == Errc::over_limit && request.code.size() < kWordLimit;
  if (!written && !full) co_return tl::unexpected<Error>(written.error());
  process.argv = full ? std::vector<std::string>{"/bin/bash", "-c", "--", std::move(request.code), path}
                      : std::vector<std::string>{"/bin/bash", "--", path};
  for (auto& argument : request.arguments) process.argv.push_back(std::move(argument));
  co_return co_await session.sandbox->start(std::move(process));
}

Task<Result<std::shared_ptr<Process>>> start_python(const Session& session, ScriptRequest request, std::string path,
                                                    sandbox::ProcessRequest process) {
  sandbox::Program program{.code = std::move(request.code),
                           .path = "/workspace/" + path,
                           .arguments = {path},
                           .outputs = std::move(request.outputs)};
  for (auto& argument : request.arguments) program.arguments.push_back(std::move(argument));
  return sandbox::start_program(session.sandbox, std::move(program), std::move(process));
}

// "add" is add.py; without a name no two scripts share one.
Result<std::string> script_path(const ScriptRequest& request) {
  const std::string extension = request.type == "python" ? ".py" : ".sh";
  if (request.filename.empty())
    return fmt::format("script_{}_{:08x}{}", std::time(nullptr), random_number<std::uint32_t>(), extension);
  COVE_TRY(auto path, session_path(request.filename));
  if (path.empty()) return fail(Errc::invalid, "it names no file");
  return path.ends_with(extension) ? path : path + extension;
}

Task<> execute_code(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  const auto body = co_await read_value(services, exchange);
  if (!body) co_return co_await send(exchange, body.error());
  auto parsed = parse_script(*body);
  if (const auto* problems = std::get_if<Problems>(&parsed))
    co_return co_await send(exchange, fastapi::wrong(*problems));
  auto& request = std::get<ScriptRequest>(parsed);
  const bool python = request.type == "python";
  if (!python && request.type != "shell")
    co_return co_await send(exchange, mistake({.message = "Unsupported script type"}, *config));
  const auto path = script_path(request);
  if (!path)
    co_return co_await send(exchange,
                            mistake({.message = "Invalid file path", .detail = path.error().message}, *config));
  if (const auto why = unusable(request.arguments); !why.empty())
    co_return co_await send(exchange, mistake({.message = kFailed, .detail = why}, *config));
  const bool wants_outputs = python && !request.outputs.empty();
  const Start start = [&](const Session& session, sandbox::ProcessRequest process) {
    return python ? start_python(session, std::move(request), *path, std::move(process))
                  : start_shell(session, std::move(request), *path, std::move(process));
  };
  const auto more = [wants_outputs](const Process& process) {
    return wants_outputs ? outputs_of(process) : std::string();
  };
  co_await run(services, exchange, start, more);
}

}  // namespace

void add_execute_routes(http::Router& router, Services* services) {
  using http::verb;
  auto* s = services;
  const auto options = plain_route();
  router.add(
      verb::post, "/workspace/se/execute/{session_id}", [s](auto& exchange) { return execute(*s, exchange); }, options);
  router.add(
      verb::post, "/workspace/se/execute_code/{session_id}", [s](auto& exchange) { return execute_code(*s, exchange); },
      options);
}

}  // namespace cove::doors::workspace
