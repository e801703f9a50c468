// Runs code as a program in a session's workspace.
#include <algorithm>

#include "doors/mcp/output_reporter.hpp"
#include "doors/mcp/runners.hpp"
#include "run/run.hpp"

namespace cove::doors::mcp {
namespace {

using cove::mcp::Call;
using sandbox::Reason;

constexpr int kNotFound = 127;  // exit code of a shell

void judge(const sandbox::ProcessEnd& end, const config::Language& language, RunRecord& record) {
  record.duration = end.wall;
  if (!end.note.empty()) record.notes.push_back(end.note);
  record.exit_code = end.exit_status;
  record.oom_kills = end.oom_kills;
  record.forks_refused = end.pids_refused;
  record.signal = guest::signal_name(end.signal);
  record.not_started = end.reason == Reason::not_started;
  if (end.reason == Reason::timeout) {
    record.timed_out = true;
    record.exit_code = -1;
    record.signal.clear();
  }
  // A runner of ours reports when the language's own command is missing.
  const bool ours = language.command.front().starts_with("/cove/bin/");
  if (ours && end.exit_status == kNotFound && record.out.empty() &&
      record.err.beginning().starts_with("Command not found: ")) {
    record.not_started = true;
    record.notes.push_back(record.err.beginning().substr(0, record.err.beginning().find('\n')));
  }
}

}  // namespace

Task<Result<RunOutcome>> run_program(Services& services, Call& call, Session& session, RunRequest request,
                                     std::string path) {
  const auto config = services.config();
  const auto kept = request.kept;
  const auto language = request.language;
  auto variables = trace_variables(call);
  std::ranges::move(request.variables, std::back_inserter(variables));  // the request's variables win
  run::Spec spec{.process = {.variables = std::move(variables),
                             .timeout = request.timeout,
                             .output_limit = config->mcp.output_bytes,
                             .kept = wire::Kept::both_ends,
                             .delivery = sandbox::Delivery::everything},
                 .input = std::move(request.input),
                 .when_gone = run::WhenGone::stop};
  spec.code = run::code_of({.language = language,
                            .code = std::move(request.code),
                            .path = "/workspace/" + path,
                            .arguments = std::move(request.arguments),
                            .echo = sandbox::Program::Echo::last_expression});
  auto run = co_await run::Run::begin(caller_of(call), session.sandbox, std::move(spec));
  if (!run) co_return tl::unexpected<Error>(run.error());
  RunOutcome outcome;
  OutputReporter reporter(call, outcome.record, kept, config->exec.output_limit_bytes);
  co_await read_to_end(*run, reporter);
  const auto& end = run->end();
  reporter.finish(RecentOutputs::Output::Written{.out = end.out_bytes, .err = end.err_bytes});
  judge(end, language, outcome.record);
  co_return outcome;
}

}  // namespace cove::doors::mcp
