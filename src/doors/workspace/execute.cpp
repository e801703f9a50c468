#include <array>
#include <ctime>

#include "base/random.hpp"
#include "doors/workspace/answers.hpp"
#include "run/run.hpp"
#include "sandbox/files.hpp"
#include "sandbox/shown_output.hpp"

namespace cove::doors::workspace {
namespace {

using sandbox::Process;

constexpr std::size_t kOutputsLimit = 4U << 20;  // of the variables a script is asked for
constexpr std::size_t kWordLimit = 128U << 10;   // of one word of a command line, as the kernel has it
constexpr std::string_view kExecuteFailed = "Failed to execute command";

bool has_nul(const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [](const std::string& word) { return word.find('\0') != std::string::npos; });
}

// Why a command line is invalid; "" when it is valid.
std::string unusable(const std::vector<std::string>& words) {
  if (has_nul(words)) return "Error: NUL cannot be part of a command line";
  const auto long_one = [](const std::string& word) { return word.size() >= kWordLimit; };
  if (std::ranges::any_of(words, long_one)) return "Error: a word of a command line has at most 131071 bytes";
  return "";
}

sandbox::ProcessRequest process_request(const config::Config& config) {
  const auto limit = config.exec.output_limit_bytes;
  return {.variables = {"HOME=/workspace", "PYTHONPATH=/workspace"},
          .timeout = config.workspace.timeout,
          .output_limit = limit,
          .kept = wire::Kept::both_ends,
          .history = 2 * limit + kOutputsLimit + (1U << 20),
          .whole = true};
}

// Trailing newlines are removed from stdout; stderr ends with exactly one.
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

// The variables that a script reported at its end; {} when it did not reach its end.
std::string outputs_of(const Process& process) {
  const auto message = sandbox::last_message(process, kOutputsLimit);
  const auto parsed = fastapi::parse_json(message.value_or("null"));
  const auto* value = std::get_if<Value>(&parsed);
  const auto* outputs = value == nullptr ? nullptr : value->member("outputs");
  if (outputs != nullptr && outputs->kind == Value::Kind::object)
    return fmt::format(R"(,"output_variables":{})", to_json(*outputs));
  constexpr std::string_view kTooLarge =
      R"(,"output_variables_error":"they are over 4 MiB or 100000 values, or cannot be written as JSON")";
  const auto& end = *process.end();
  const bool whole = end.reason == sandbox::Reason::exited && end.exit_status == 0;
  return fmt::format(R"(,"output_variables":{{}}{})", whole ? kTooLarge : "");
}

// A command for a session, and a file to write first, if any.
using Prepare = std::function<Task<Result<run::Code>>(const Session&)>;

Task<Answer> run_in_session(Services& services, http::Exchange& exchange, Prepare prepare, bool outputs = false) {
  const auto config = services.config();
  COVE_OR_TRY(const auto session, co_await open_session(services, exchange));
  auto ticket = co_await run::admit(services, caller_of(exchange));
  if (!ticket) co_return answer_to(ticket.error(), kExecuteFailed, *config);
  if (exchange.client_gone()) co_return std::nullopt;
  auto code = co_await prepare(session);
  if (!code) co_return answer_to(code.error(), kExecuteFailed, *config);
  run::Spec spec{.code = std::move(*code), .process = process_request(*config)};
  run::Workplace workplace(std::move(*ticket), session.sandbox);
  auto run = co_await run::Run::begin(caller_of(exchange), std::move(workplace), std::move(spec));
  if (!run) co_return answer_to(run.error(), kExecuteFailed, *config);
  if (!co_await run->wait()) co_return std::nullopt;
  const auto& process = *run->process();
  co_return envelope(members_of(process) + (outputs ? outputs_of(process) : ""));
}

Task<Result<run::Code>> ready(std::vector<std::string> argv) {
  co_return run::Command{.argv = std::move(argv)};
}

// The command is a shell command line; each argument is quoted as one word.
Task<Answer> execute(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  COVE_OR_TRY(const auto body, co_await read_value(services, exchange));
  COVE_OR_TRY(auto request, fastapi::valid(parse_command(body)));
  if (!request.arguments.empty()) request.command += " \"$@\"";
  std::vector<std::string> words{"/bin/bash", "-c", "--", std::move(request.command), "bash"};
  for (auto& argument : request.arguments) words.push_back(std::move(argument));
  if (const auto why = unusable(words); !why.empty())
    co_return mistake({.message = kExecuteFailed, .detail = why}, *config);
  co_return co_await run_in_session(services, exchange, [&words](const Session&) { return ready(std::move(words)); });
}

// Saved in the session, as callers expect. A full disk does not stop the script from running.
Task<Result<>> write_script(const Session& session, std::string path, std::string code,
                            std::function<bool()> abandoned) {
  const sandbox::SandboxFiles files(session.sandbox, std::move(abandoned), sandbox::Confined::to_workspace);
  COVE_CO_CHECK(co_await files.write_all(sandbox::workspace_path(path), std::move(code), {.permissions = 0755}));
  co_return Result<>();
}

Task<Result<run::Code>> shell_script(const Session& session, ScriptRequest request, std::string path,
                                     std::function<bool()> abandoned) {
  const auto written = co_await write_script(session, path, request.code, std::move(abandoned));
  const bool full = !written && written.error().code == Errc::over_limit && request.code.size() < kWordLimit;
  if (!written && !full) co_return tl::unexpected<Error>(written.error());
  run::Command command{.argv = full ? std::vector<std::string>{"/bin/bash", "-c", "--", std::move(request.code), path}
                                    : std::vector<std::string>{"/bin/bash", "--", path}};
  for (auto& argument : request.arguments) command.argv.push_back(std::move(argument));
  co_return command;
}

Task<Result<run::Code>> python_script(ScriptRequest request, std::string path) {
  sandbox::Program program{.code = std::move(request.code),
                           .path = "/workspace/" + path,
                           .arguments = {path},
                           .outputs = std::move(request.outputs)};
  for (auto& argument : request.arguments) program.arguments.push_back(std::move(argument));
  co_return program;
}

// "add" becomes add.py; a script without a name gets a unique one.
Result<std::string> script_path(const ScriptRequest& request) {
  const std::string extension = request.type == "python" ? ".py" : ".sh";
  if (request.filename.empty())
    return fmt::format("script_{}_{:08x}{}", std::time(nullptr), random_number<std::uint32_t>(), extension);
  COVE_TRY(auto path, session_path(request.filename));
  if (path.empty()) return fail(Errc::invalid, "it does not name a file");
  return path.ends_with(extension) ? path : path + extension;
}

Task<Answer> execute_code(Services& services, http::Exchange& exchange) {
  const auto config = services.config();
  COVE_OR_TRY(const auto body, co_await read_value(services, exchange));
  COVE_OR_TRY(auto request, fastapi::valid(parse_script(body)));
  const bool python = request.type == "python";
  if (!python && request.type != "shell") co_return mistake({.message = "Unsupported script type"}, *config);
  const auto path = script_path(request);
  if (!path) co_return mistake({.message = "Invalid file path", .detail = path.error().message}, *config);
  if (const auto why = unusable(request.arguments); !why.empty())
    co_return mistake({.message = kExecuteFailed, .detail = why}, *config);
  const bool outputs = python && !request.outputs.empty();
  const Prepare prepare = [&](const Session& session) {
    return python ? python_script(std::move(request), *path)
                  : shell_script(session, std::move(request), *path, gone(exchange));
  };
  co_return co_await run_in_session(services, exchange, prepare, outputs);
}

constexpr auto kExecuteRoutes = std::to_array<Route>({
    {verb::post, "/workspace/se/execute/{session_id}", answered<execute>, kPlain},
    {verb::post, "/workspace/se/execute_code/{session_id}", answered<execute_code>, kPlain},
});

}  // namespace

Routes execute_routes() {
  return kExecuteRoutes;
}

}  // namespace cove::doors::workspace
