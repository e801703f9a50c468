#include "sandbox/kernel.hpp"

#include "base/clock.hpp"
#include "base/log_fields.hpp"
#include "sandbox/journal_outcome.hpp"
#include "sandbox/poll_interval.hpp"
#include "sandbox/tool_calls.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
namespace json = boost::json;

constexpr std::size_t kBatch = 256U << 10;
constexpr int kNotFound = 127;  // as shells report it
constexpr milliseconds kStartTime{30'000};
constexpr std::chrono::hours kAdoptedTime{1};  // for what it was doing when it was adopted

ProcessRequest request_for(const std::string& id, const KernelOptions& options) {
  return {.kind = ProcessKind::kernel,
          .argv = {},
          .variables = options.variables,
          .input = InputMode::none,
          .delivery = Delivery::everything,
          .tag = {.owner = id, .language = std::string(name_of(options.language)), .variables = options.variables}};
}

async::Task<Result<std::shared_ptr<Process>>> start_interpreter(std::shared_ptr<Sandbox> sandbox, std::string id,
                                                                KernelOptions options) {
  auto request = request_for(id, options);
  if (options.language == KernelLanguage::javascript) co_return co_await sandbox->start_node(std::move(request));
  co_return co_await sandbox->start_python(std::move(request));
}

async::Task<> end_of(std::shared_ptr<Kernel> kernel) {
  co_await kernel->stop();
}

}  // namespace

std::string_view name_of(Kernel::State state) {
  return state == Kernel::State::starting ? "starting"
         : state == Kernel::State::idle   ? "idle"
         : state == Kernel::State::busy   ? "busy"
                                          : "dead";
}

Kernel::Kernel(std::shared_ptr<Sandbox> sandbox, std::string id, std::shared_ptr<Process> process,
               std::shared_ptr<KernelTotals> totals)
    : sandbox_(std::move(sandbox)),
      process_(std::move(process)),
      id_(std::move(id)),
      totals_(std::move(totals)),
      changed_(sandbox_->executor()),
      recent_(sandbox_->tenant(), totals_),
      // Never one that a server before us gave.
      next_id_(static_cast<std::uint64_t>(unix_millis()) * 1000),
      deadline_(sandbox_->executor()) {}

async::Task<Result<std::shared_ptr<Kernel>>> Kernel::start(std::shared_ptr<Sandbox> sandbox, std::string id,
                                                           KernelOptions options,
                                                           std::shared_ptr<KernelTotals> totals) {
  auto process = co_await start_interpreter(sandbox, id, options);
  if (!process) co_return tl::unexpected<Error>(process.error());
  if (const auto& end = (*process)->end())
    co_return tl::unexpected<Error>(Error{.code = Errc::conflict,
                                          .message = end->note.empty() ? "the interpreter did not start" : end->note,
                                          .sys_errno = end->exit_status == kNotFound ? ENOENT : 0});
  const auto kernel = std::make_shared<Kernel>(sandbox, std::move(id), std::move(*process), std::move(totals));
  kernel->options_ = std::move(options);
  sandbox->tasks().spawn("receive from a kernel", serve(kernel, kernel->process_));
  if (auto begun = co_await kernel->begin(); !begun) {
    // In a paused sandbox it ends when that is resumed: the caller need not wait for it.
    sandbox->tasks().spawn("end a kernel that did not begin", end_of(kernel));
    co_return tl::unexpected<Error>(begun.error());
  }
  co_return kernel;
}

std::shared_ptr<Kernel> Kernel::adopt(std::shared_ptr<Sandbox> sandbox, std::shared_ptr<Process> process,
                                      std::shared_ptr<KernelTotals> totals) {
  const auto tag = process->request().tag;
  const auto kernel = std::make_shared<Kernel>(std::move(sandbox), tag.owner, std::move(process), std::move(totals));
  kernel->options_ = {.language = find_kernel_language(tag.language).value_or(KernelLanguage::python),
                      .variables = tag.variables};
  // It may be in the middle of something: when it answers it is not.
  kernel->state_ = State::idle;
  ExecutionOrder ping{.op = "ping", .timeout = kAdoptedTime};
  kernel->enqueue(std::move(ping), {});
  kernel->run_next();
  kernel->sandbox_->tasks().spawn("receive from a kernel", serve(kernel, kernel->process_));
  return kernel;
}

bool Kernel::warm() const {
  return process_->request().tag.birth == Birth::warm;
}

async::Task<Result<>> Kernel::begin() {
  const auto self = shared_from_this();
  auto first = sandbox_->first_message("kernel", request_for(id_, options_));
  first["language"] = name_of(options_.language);
  if (auto sent = process_->send(json::serialize(first)); !sent) co_return sent;
  const auto until = std::chrono::steady_clock::now() + kStartTime;
  const auto paused = [this] { return sandbox_->state() == sandbox::State::paused; };
  while (state_ == State::starting && !paused() && std::chrono::steady_clock::now() < until)
    co_await changed_.wait_until(std::chrono::steady_clock::now() + kPollInterval);
  if (state_ == State::starting && paused()) co_return fail(Errc::conflict, "the sandbox is paused: resume it first");
  if (state_ == State::starting) co_return fail(Errc::unavailable, "the kernel did not start in time");
  if (state_ == State::dead)
    co_return fail(Errc::conflict, fmt::format("the kernel died during its start: {}", how_it_died()));
  co_return Result<>();
}

async::Task<> Kernel::serve(std::shared_ptr<Kernel> self, std::shared_ptr<Process> process) {
  Reader reader(process, 1);
  while (self->process_ == process) {
    auto batch = reader.take(kBatch);
    for (const auto& event : batch.events) {
      if (self->process_ == process) self->on_event(event);
      co_await self->wait_for_reader();
    }
    if (batch.over) break;
    if (batch.events.empty()) co_await process->changed().wait_until(std::chrono::steady_clock::now() + kPollInterval);
  }
  if (self->process_ == process) self->die();
  self->sandbox_->forget(process);
}

// Nothing more is read from the interpreter, which then waits, until the execution's reader has taken what there is.
async::Task<> Kernel::wait_for_reader() {
  while (running_ && running_->full() && !ending_) {
    const auto running = running_;
    co_await running->changed().wait_until(std::chrono::steady_clock::now() + kPollInterval);
  }
}

std::string Kernel::how_it_died() const {
  if (!broken_.empty()) return broken_;
  const auto& end = process_->end();
  if (!end) return "the sandbox ended";
  switch (end->reason) {
    case Reason::exited:
      return fmt::format("it exited with status {}", end->exit_status);
    case Reason::signalled:
      return fmt::format("it was killed by {}", guest::signal_name(end->signal));
    case Reason::timeout:
      return "it did not end in time, and not when it was interrupted";
    case Reason::cancelled:
      return "it was ended";
    default:
      return end->note.empty() ? std::string(name_of(end->reason)) : end->note;
  }
}

tl::unexpected<Error> Kernel::is_dead() const {
  return fail(Errc::conflict, fmt::format("the kernel is dead ({}): restart it, or create another", how_it_died()));
}

// Everyone who waits learns at once, and why.
void Kernel::die() {
  state_ = State::dead;
  deadline_.cancel();
  if (auto* calls = sandbox_->tool_calls(); calls != nullptr) calls->cancel(*this, std::nullopt);
  const auto& end = process_->end();
  auto reason = stopping_.value_or(end ? end->reason : Reason::sandbox_gone);
  // A parent that waits for the child the kernel killed runs into its time limit: memory is what ended it.
  if (reason == Reason::timeout && end && end->reason == Reason::oom) reason = Reason::oom;
  if (reason == Reason::exited || reason == Reason::signalled) reason = Reason::kernel_died;
  const auto note = how_it_died();
  if (!ending_ && reason != Reason::sandbox_gone && reason != Reason::shutdown)
    sandbox_->note("kernel died", fmt::format("kernel={} reason={}", id(), log_value(note)));
  stopping_.reset();
  if (const auto last = std::exchange(running_, nullptr))
    finish(last, {.status = ExecutionEnd::Status::error,
                  .reason = reason,
                  .note = note,
                  .oom_kills = end ? end->oom_kills : 0,
                  .exit_status = end ? std::optional(end->exit_status) : std::nullopt,
                  .signal = end ? end->signal : 0});
  // What one of them did is not the others' end.
  const bool all = ending_ || reason == Reason::sandbox_gone || reason == Reason::shutdown;
  for (const auto& waiting : std::exchange(queue_, {}))
    finish(waiting,
           {.status = ExecutionEnd::Status::aborted, .reason = all ? reason : Reason::kernel_died, .note = note});
  changed_.notify_all();
}

async::Task<Result<>> Kernel::restart(journal::Actor actor) {
  const auto self = shared_from_this();
  const auto entry = sandbox_->begin_act(actor, act_of("restart"));
  if (std::exchange(restarting_, true)) co_return fail(Errc::conflict, "the kernel is already being restarted");
  co_await end_process();
  state_ = State::starting;  // what comes from now on is for the new one
  changed_.notify_all();
  Result<> done = fail(Errc::not_found, "the kernel was deleted");
  if (!removed_) done = co_await start_again();
  if (!done && state_ != State::dead) die();
  restarting_ = false;
  if (removed_) co_await end_process();
  changed_.notify_all();
  if (entry) entry->end(outcome_of(done));
  co_return done;
}

async::Task<Result<>> Kernel::start_again() {
  auto process = co_await start_interpreter(sandbox_, id_, options_);
  if (!process) co_return tl::unexpected<Error>(process.error());
  process_ = std::move(*process);
  inbox_ = KernelInbox();
  broken_.clear();
  state_ = State::starting;
  sandbox_->tasks().spawn("receive from a kernel", serve(shared_from_this(), process_));
  auto begun = co_await begin();
  if (!begun) co_await end_process();
  co_return begun;
}

async::Task<> Kernel::stop() {
  const auto self = shared_from_this();
  removed_ = true;
  co_await end_process();
  while (restarting_) co_await changed_.wait_until(std::chrono::steady_clock::now() + kPollInterval);
}

async::Task<> Kernel::end_process() {
  if (state_ != State::dead && !stopping_) stopping_ = Reason::cancelled;
  ending_ = true;
  process_->stop(Reason::cancelled);
  while (state_ != State::dead) co_await changed_.wait_until(std::chrono::steady_clock::now() + kPollInterval);
  ending_ = false;
}

}  // namespace cove::sandbox
