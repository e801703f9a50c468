// Code as a program of its own, in the workspace of a session.
#include <algorithm>

#include "doors/mcp/runners.hpp"
#include "doors/mcp/telling.hpp"
#include "sandbox/lease.hpp"
#include "sandbox/program.hpp"

namespace cove::doors::mcp {
namespace {

using cove::mcp::Call;
using sandbox::Reason;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{100};
constexpr std::size_t kBatch = std::size_t{256} << 10;
constexpr int kNotFound = 127;  // as shells say it

Task<Result<std::shared_ptr<sandbox::Process>>> start(std::shared_ptr<sandbox::Sandbox> sandbox, RunRequest request,
                                                      std::string path, sandbox::ProcessRequest process) {
  if (request.language.name == "python") {
    sandbox::Program program{.code = std::move(request.code), .echo = sandbox::Program::Echo::last_expression};
    program.path = path;
    program.arguments = {path};
    program.arguments.insert(program.arguments.end(), request.arguments.begin(), request.arguments.end());
    co_return co_await start_program(std::move(sandbox), std::move(program), std::move(process));
  }
  process.argv = config::command_line(request.language.command, path);
  process.argv.insert(process.argv.end(), request.arguments.begin(), request.arguments.end());
  co_return co_await sandbox->start(std::move(process));
}

void judge(const sandbox::ProcessEnd& end, const config::Language& language, Ran& ran) {
  ran.duration = end.wall;
  if (!end.note.empty()) ran.notes.push_back(end.note);
  ran.exit_code = end.exit_status;
  ran.signal = sandbox::signal_name(end.signal);
  ran.not_started = end.reason == Reason::not_started;
  if (end.reason == Reason::timeout) {
    ran.timed_out = true;
    ran.exit_code = -1;
    ran.signal.clear();
  }
  // Ours calls the language's own, and says so when that is missing.
  const bool ours = language.command.front().starts_with("/cove/bin/");
  if (ours && end.exit_status == kNotFound && ran.out.empty() && ran.err.starts_with("Command not found: ")) {
    ran.not_started = true;
    ran.notes.push_back(ran.err.substr(0, ran.err.find('\n')));
  }
}

}  // namespace

Task<Result<Started>> run_program(Services& services, Call& call, Session& session, RunRequest request,
                                  std::string path) {
  const auto limit = services.config()->exec.output_limit_bytes;
  const auto language = request.language;
  auto input = std::move(request.input);
  auto variables = trace_variables(call);
  std::ranges::move(request.variables, std::back_inserter(variables));  // those that were asked for win
  sandbox::ProcessRequest process{.variables = std::move(variables),
                                  .timeout = request.timeout,
                                  .input = input ? sandbox::InputMode::open : sandbox::InputMode::none,
                                  .output_limit = limit,
                                  .history = 2 * limit + (1U << 20),
                                  .abandoned = [&call] { return call.cancelled(); }};
  const auto begun = co_await start(session.sandbox, std::move(request), "/workspace/" + path, std::move(process));
  if (!begun) co_return tl::unexpected<Error>(begun.error());
  const auto running = *begun;
  const sandbox::Attended attended(session.sandbox, running);
  if (input) services.tasks.spawn("feed a program", sandbox::feed(running, std::move(*input)));
  Started started;
  Telling telling(call, started.ran, limit);
  sandbox::Reader reader(running, 1);
  while (true) {
    const auto batch = reader.take(kBatch);
    for (const auto& event : batch.events) {
      if (event.kind == sandbox::Event::Kind::out) telling.add(Line::Stream::out, event.bytes);
      if (event.kind == sandbox::Event::Kind::err) telling.add(Line::Stream::err, event.bytes);
    }
    telling.tell();
    if (batch.over) break;
    if (batch.events.empty()) co_await running->changed().wait_until(Clock::now() + kLook);
    if (call.cancelled()) running->stop(Reason::cancelled);
  }
  const auto& end = *running->end();
  telling.finish();
  judge(end, language, started.ran);
  started.ran.out_truncated = started.ran.out_truncated || end.out_bytes > limit;
  started.ran.err_truncated = started.ran.err_truncated || end.err_bytes > limit;
  co_return started;
}

}  // namespace cove::doors::mcp
