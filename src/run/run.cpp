#include "run/run.hpp"

#include <algorithm>
#include <iterator>

#include "run/act.hpp"

namespace cove::run {

using async::Task;
using Clock = std::chrono::steady_clock;
using sandbox::Process;

namespace {

constexpr std::size_t kBatchBytes = std::size_t{256} << 10;

}  // namespace

Code code_of(Source source) {
  if (source.language.name != "python") {
    Command command{.argv = config::command_line(source.language.command, source.path)};
    std::ranges::move(source.arguments, std::back_inserter(command.argv));
    command.program = {
        .language = source.language.name, .code = std::move(source.code), .path = std::move(source.path)};
    return command;
  }
  sandbox::Program program{.code = std::move(source.code), .echo = source.echo};
  program.path = source.path;
  program.arguments = {std::move(source.path)};
  std::ranges::move(source.arguments, std::back_inserter(program.arguments));
  return program;
}

Task<Result<std::shared_ptr<Process>>> start(std::shared_ptr<sandbox::Sandbox> sandbox, Spec spec) {
  auto request = std::move(spec.process);
  if (request.kind != sandbox::ProcessKind::internal)
    request.entry = sandbox->begin_act(spec.actor, act_of(spec, request));
  if (spec.input) request.input = sandbox::InputMode::open;
  Result<std::shared_ptr<Process>> started = fail(Errc::io, "");
  if (auto* command = std::get_if<Command>(&spec.code)) {
    request.argv = std::move(command->argv);
    started = co_await sandbox->start(std::move(request));
  } else if (auto* program = std::get_if<sandbox::Program>(&spec.code)) {
    started = co_await sandbox::start_program(sandbox, std::move(*program), std::move(request));
  } else {
    auto& call = std::get<sandbox::HandlerCall>(spec.code);
    started = co_await sandbox::start_handler(sandbox, std::move(call), std::move(request));
  }
  if (started && spec.input) sandbox->tasks().spawn("feed a program", sandbox::feed(*started, std::move(*spec.input)));
  co_return started;
}

Task<Result<Run>> Run::begin(Caller caller, std::shared_ptr<sandbox::Sandbox> sandbox, Spec spec) {
  const auto when_gone = spec.when_gone;
  spec.actor = journal::actor_of(caller.principal);
  spec.process.abandoned = caller.gone;
  auto started = co_await start(sandbox, std::move(spec));
  if (!started) co_return tl::unexpected<Error>(started.error());
  co_return Run(std::move(caller), std::move(sandbox), std::move(*started), when_gone);
}

Task<Result<Run>> Run::begin(Caller caller, Workplace workplace, Spec spec) {
  auto sandbox = workplace.sandbox();
  auto run = co_await begin(std::move(caller), std::move(sandbox), std::move(spec));
  if (run) run->workplace_.emplace(std::move(workplace));
  co_return run;
}

Run::Run(Caller caller, std::shared_ptr<sandbox::Sandbox> sandbox, std::shared_ptr<Process> process, WhenGone when_gone)
    : caller_(std::move(caller)), sandbox_(std::move(sandbox)), process_(std::move(process)), when_gone_(when_gone) {}

Run::~Run() {
  if (process_) sandbox_->forget(process_);
}

bool Run::check_caller() {
  if (!caller_.gone()) return true;
  if (when_gone_ == WhenGone::give_up) return false;
  process_->stop(sandbox::Reason::cancelled);
  return true;
}

Task<std::optional<sandbox::Reader::Batch>> Run::next() {
  if (!reader_) reader_ = std::make_unique<sandbox::Reader>(process_, 1);
  auto batch = reader_->take(kBatchBytes);
  if (!batch.events.empty() || batch.lost || batch.over) co_return batch;
  co_await process_->changed().wait_until(Clock::now() + sandbox::kPollInterval);
  if (!check_caller()) co_return std::nullopt;
  co_return reader_->take(kBatchBytes);
}

Task<bool> Run::wait() {
  while (!process_->end()) {
    co_await process_->changed().wait_until(Clock::now() + sandbox::kPollInterval);
    if (!check_caller()) co_return false;
  }
  co_return true;
}

}  // namespace cove::run
