#include "jobs/jobs.hpp"

#include <algorithm>

#include "async/deadline.hpp"
#include "base/clock.hpp"
#include "base/text.hpp"
#include "guest/channel.hpp"
#include "jobs/job_result.hpp"
#include "run/run.hpp"
#include "sandbox/files.hpp"

namespace cove::jobs {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kStoreInterval{500};  // between attempts to store an end
constexpr std::size_t kBatch = 256U << 10;
constexpr std::size_t kMaxMessage = 4U << 20;  // of a handler
constexpr std::size_t kMaxArtifacts = 1000;
constexpr std::size_t kMaxListed = 10'000;
constexpr std::size_t kDepth = 16;
constexpr std::chrono::seconds kListTime{10};
constexpr std::int64_t kClockGrain = 10;  // ms that a file's time may lie before ours: the kernel counts in ticks
constexpr milliseconds kLook{250};
constexpr std::chrono::hours kPatience{24};  // in the line

// Where the code lies, for languages whose programs are files: among the user's files, so that it finds them.
std::string program_path(const store::ExecutionRow& row, const config::Language& language) {
  return fmt::format("/workspace/.{}{}", row.id, language.extensions.front());
}

// Of one stream, what fits.
void add_up_to(std::string& text, std::string_view bytes, std::uint64_t limit) {
  text.append(bytes.substr(0, static_cast<std::size_t>(limit - std::min<std::uint64_t>(limit, text.size()))));
}

std::string fine_time(std::int64_t unix_ms) {
  auto text = iso_time(unix_ms);
  text.pop_back();
  return fmt::format("{}.{:03}Z", text, unix_ms % 1000);
}

}  // namespace

Jobs::Jobs(sandbox::Registry& registry, sandbox::Admission& admission, Callbacks& callbacks,
           std::function<ExecutionHistory::Limits()> history, Callbacks::Log log)
    : registry_(registry),
      admission_(admission),
      callbacks_(callbacks),
      history_(registry.store().executions(), std::move(history),
               [&registry](const std::string& sandbox) { return registry.by_id(sandbox) != nullptr; }),
      log_(std::move(log)) {}

Result<std::shared_ptr<Job>> Jobs::submit(std::shared_ptr<sandbox::Sandbox> sandbox, JobRequest request,
                                          sandbox::Admission::Share share) {
  if (sandbox->state() == sandbox::State::paused) return fail(Errc::conflict, "the sandbox is paused: resume it first");
  std::size_t of_sandbox = 0;
  std::size_t of_tenant = 0;
  Callbacks::Unfinished callbacks;
  for (const auto& [id, job] : live_) {
    const bool same_tenant = job->row.tenant == sandbox->tenant();
    const bool has_callback = !job->row.callback_url.empty();
    of_sandbox += job->sandbox == sandbox ? 1 : 0;
    of_tenant += same_tenant ? 1 : 0;
    callbacks.of_tenant += same_tenant && has_callback ? 1 : 0;
    callbacks.of_all += has_callback ? 1 : 0;
  }
  if (of_sandbox >= kMaxUnfinished)
    return fail(Errc::quota, fmt::format("this sandbox has {} unfinished executions: wait for one to end", of_sandbox));
  if (of_tenant >= kMaxOfTenant)
    return fail(Errc::quota, fmt::format("this tenant has {} unfinished executions: wait for one to end", of_tenant));
  if (!request.callback_url.empty()) COVE_CHECK(callbacks_.admit(sandbox->tenant(), callbacks));
  COVE_CHECK(admission_.count(sandbox->tenant(), share));
  store::ExecutionRow row{.id = fmt::format("x{}", SandboxId::random().view()),
                          .sandbox = sandbox->row().id,
                          .sandbox_name = sandbox->name(),
                          .tenant = sandbox->tenant(),
                          .language = request.language.name,
                          .kernel = request.kernel ? request.kernel->id() : "",
                          .code = std::move(request.code),
                          .created_unix_ms = unix_millis(),
                          .callback_url = request.callback_url};
  COVE_TRY(row.callback_secret, registry_.store().secrets().seal(row.id, request.callback_secret));
  json::object asked{{"timeoutSeconds", std::chrono::duration<double>(request.timeout).count()},
                     {"handler", request.event_json.has_value()}};
  asked["args"] = json::value_from(request.arguments);
  row.request_json = json::serialize(asked);
  COVE_CHECK(registry_.store().executions().insert(row));
  const auto job = std::make_shared<Job>(sandbox->executor(), std::move(sandbox), std::move(row));
  job->output_limit = request.output_limit;
  job->charge = std::move(request.charge);
  live_.emplace(job->row.id, job);
  registry_.tasks().spawn("run an execution", run(job, std::move(request), share));
  return job;
}

std::shared_ptr<Job> Jobs::find(const std::string& id) const {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : found->second;
}

void Jobs::cancel(Job& job, guest::Reason reason) {
  job.cancelled = true;
  if (job.process) job.process->stop(reason);
  if (job.execution) job.kernel->cancel(job.execution, reason);
}

void Jobs::end_all() {
  for (const auto& [id, job] : live_) cancel(*job, guest::Reason::shutdown);
}

void Jobs::let_go() {
  tickets_.clear();
}

async::Task<> Jobs::run(std::shared_ptr<Job> job, JobRequest request, sandbox::Admission::Share share) {
  const sandbox::Sandbox::Activity activity(job->sandbox);
  const auto gone = [job] {
    return job->sandbox->state() == sandbox::State::deleting || job->sandbox->state() == sandbox::State::gone;
  };
  const auto abandoned = [job, gone] { return job->cancelled || gone(); };
  auto ticket = co_await admission_.enter(job->sandbox->tenant(), share, abandoned, kPatience,
                                          sandbox::Admission::Counted::before);
  if (job->cancelled) co_return fail_with(job, guest::Reason::cancelled, "cancelled before it began");
  if (gone()) co_return fail_with(job, guest::Reason::sandbox_gone, "the sandbox ended before it began");
  if (!ticket) co_return fail_with(job, guest::Reason::not_started, ticket.error().message);
  tickets_[job->row.id].emplace(std::move(*ticket));
  if (request.kernel)
    co_await run_in_kernel(job, std::move(request));
  else
    co_await run_in_process(job, std::move(request));
}

async::Task<> Jobs::run_in_process(std::shared_ptr<Job> job, JobRequest request) {
  run::Spec spec{.actor = request.actor};
  auto& process = spec.process;
  process.kind = sandbox::ProcessKind::execution;
  process.variables = std::move(request.variables);
  process.timeout = request.timeout;
  process.output_limit = request.output_limit;
  process.kept = wire::Kept::both_ends;
  process.tag.owner = job->row.id;
  process.abandoned = [job] { return job->cancelled; };
  spec.input = std::move(request.input);
  if (request.event_json) {
    spec.code = sandbox::HandlerCall{.code = job->row.code, .event_json = *request.event_json, .context_json = "{}"};
  } else {
    const auto path = program_path(job->row, request.language);
    spec.code = run::code_of(
        {.language = request.language, .code = job->row.code, .path = path, .arguments = std::move(request.arguments)});
    if (std::holds_alternative<run::Command>(spec.code))
      process.files.push_back({.path = path, .mode = 0644, .content = job->row.code});
  }
  auto started = co_await run::start(job->sandbox, std::move(spec));
  if (!started)
    co_return fail_with(job, job->cancelled ? guest::Reason::cancelled : guest::Reason::not_started,
                        started.error().message);
  job->process = *started;
  begun(*job, request.timeout);
  if (job->cancelled) job->process->stop(guest::Reason::cancelled);
  co_await follow(job);
}

// To its end, from the beginning: this may be the second server that does so.
async::Task<> Jobs::follow(std::shared_ptr<Job> job) {
  sandbox::Reader reader(job->process, 1);
  guest::MessageReader messages(kMaxMessage);
  Found found;
  while (true) {
    const auto batch = reader.take(kBatch);
    for (const auto& event : batch.events) {
      if (event.kind == sandbox::Event::Kind::out) add_up_to(found.out, event.bytes, job->output_limit);
      if (event.kind == sandbox::Event::Kind::err) add_up_to(found.err, event.bytes, job->output_limit);
      if (event.kind != sandbox::Event::Kind::channel) continue;
      auto message = messages.add(event.bytes);
      if (message && *message) found.message = std::move(**message);
    }
    if (batch.over) break;
    if (batch.events.empty()) co_await job->process->changed().wait_until(Clock::now() + kLook);
  }
  const auto end = *job->process->end();
  auto result = result_of(*job->process, found.out, found.err);
  std::string status(status_of(end.reason, end.exit_status));
  boost::system::error_code failed;
  const auto asked = json::parse(job->row.request_json, failed);
  if (asked.at("handler").as_bool() && end.reason == guest::Reason::exited) {
    const auto returned = returned_by(found.message);
    if (end.exit_status == 0) result["exitCode"] = returned.exit_code;
    status = result["exitCode"].as_int64() == 0 && returned.error.empty() ? "completed" : "failed";
    result["returnValue"] = returned.value;
    if (!returned.error.empty()) result["error"] = returned.error;
  }
  if (job->sandbox->state() == sandbox::State::running) {
    if (const auto counted = co_await job->sandbox->inspect()) result["memoryPeakBytes"] = counted->memory_peak_bytes;
    const auto languages = config::Languages::built_in();
    const auto language =
        languages ? languages->by_name(job->row.language) : Result<config::Language>(fail(Errc::io, ""));
    const auto program = language ? program_path(job->row, *language) : std::string();
    result["artifacts"] = co_await artifacts_of(job->sandbox, job->row.started_unix_ms.value_or(0), program);
  }
  finish(job, std::move(status), std::move(result));
}

async::Task<> Jobs::run_in_kernel(std::shared_ptr<Job> job, JobRequest request) {
  sandbox::ExecuteRequest cell{.code = job->row.code};
  cell.actor = request.actor;
  cell.timeout = request.timeout;
  cell.limits.output_bytes = request.output_limit;
  auto queued = request.kernel->execute(std::move(cell));
  if (!queued) co_return fail_with(job, guest::Reason::not_started, queued.error().message);
  job->kernel = request.kernel;
  job->execution = *queued;
  while (!job->execution->end()) {
    if (!job->row.started_unix_ms && job->execution->state() == sandbox::Execution::State::running)
      begun(*job, request.timeout);
    co_await job->execution->changed().wait();
  }
  if (!job->row.started_unix_ms) begun(*job, request.timeout);
  const auto& end = *job->execution->end();
  json::object result{{"reason", name_of(end.reason)}, {"durationMs", end.wall.count()}};
  std::string out;
  std::string err;
  json::array outputs;
  std::size_t shown = 0;
  for (const auto& event : job->execution->events()) {
    if (event.type == "stdout" || event.type == "stderr")
      (event.type == "stdout" ? out : err) += std::string_view(event.content.at("text").as_string());
    if (event.type == "error") result["error"] = event.content;
    if (event.type != "display" && event.type != "result") continue;
    const auto* data = event.content.if_contains("data");
    if (data == nullptr) continue;
    shown += json::serialize(*data).size();
    if (shown <= kMaxMessage) outputs.push_back(json::object{{"type", event.type}, {"data", *data}});
  }
  const auto& lost = job->execution->truncated();
  result["stdout"] = std::move(out);
  result["stderr"] = std::move(err);
  result["stdoutTruncated"] = lost.stdout_bytes > 0;
  result["stderrTruncated"] = lost.stderr_bytes > 0;
  result["outputs"] = std::move(outputs);
  if (end.oom_kills > 0) result["oomKills"] = end.oom_kills;
  if (!end.note.empty())
    result[end.reason == guest::Reason::exited ? "note" : "error"] = replace_invalid_utf8(end.note);
  const bool good = end.status == sandbox::ExecutionEnd::Status::ok;
  finish(job, std::string(status_of(end.reason, good ? 0 : 1)), std::move(result));
}

void Jobs::begun(Job& job, milliseconds timeout) {
  job.row.status = "running";
  job.row.started_unix_ms = unix_millis();
  job.row.deadline_boot_ms = (boot_time() + timeout).count();
  const auto written =
      registry_.store().executions().begin(job.row.id, *job.row.started_unix_ms, job.row.deadline_boot_ms);
  if (!written) log_(fmt::format("execution not stored id={} reason=\"{}\"", job.row.id, written.error().message));
  job.changed.notify_all();
}

void Jobs::fail_with(const std::shared_ptr<Job>& job, guest::Reason reason, std::string why) {
  finish(job, std::string(status_of(reason, 1)), {{"reason", name_of(reason)}, {"error", replace_invalid_utf8(why)}});
}

void Jobs::finish(const std::shared_ptr<Job>& job, std::string status, json::object result) {
  auto& row = job->row;
  row.status = std::move(status);
  row.ended_unix_ms = unix_millis();
  row.result_json = json::serialize(result);
  tickets_.erase(row.id);
  if (!stored(*job)) registry_.tasks().spawn("store an execution", store_later(job));
  job->changed.notify_all();
}

// False: somebody else holds the database at the moment.
bool Jobs::stored(const Job& job) {
  const auto written = history_.add(job.row);
  if (!written && written.error().code == Errc::unavailable) return false;
  if (!written) log_(fmt::format("execution not stored id={} reason=\"{}\"", job.row.id, written.error().message));
  call_back(job.row);
  live_.erase(job.row.id);
  return true;
}

// Until then it is found among those that live.
async::Task<> Jobs::store_later(std::shared_ptr<Job> job) {
  do co_await async::sleep_for(kStoreInterval);
  while (!stored(*job));
}

void Jobs::call_back(const store::ExecutionRow& row) {
  if (row.callback_url.empty()) return;
  auto body = to_json(row);
  body.erase("callback");
  callbacks_.add(row, std::move(body));
}

// The files of the workspace that are younger than its beginning. The word of the sandbox.
async::Task<json::array> Jobs::artifacts_of(std::shared_ptr<sandbox::Sandbox> sandbox, std::int64_t since_unix_ms,
                                            std::string program) {
  json::array found;
  const auto abandoned = [until = Clock::now() + kListTime] { return Clock::now() > until; };
  const sandbox::SandboxFiles files(std::move(sandbox), abandoned);
  if (!program.empty()) [[maybe_unused]]
    const auto gone = co_await files.remove(std::move(program), sandbox::Recursive::no);
  const sandbox::ListOptions options{.depth = kDepth, .max_entries = kMaxListed};
  const auto listing = co_await files.list(sandbox::workspace_path(""), options);
  if (!listing) co_return found;
  const auto since = fine_time(since_unix_ms - kClockGrain);
  for (const auto& entry : listing->entries) {
    if (entry.type != "file" || entry.modified < since) continue;
    if (found.size() >= kMaxArtifacts) break;
    found.push_back(json::object{{"path", entry.path}, {"size", entry.size}, {"mtime", entry.modified}});
  }
  co_return found;
}

Result<> Jobs::remember() {
  COVE_CHECK(history_.load());
  COVE_TRY(remembered_, registry_.store().executions().unfinished());
  return {};
}

void Jobs::adopt() {
  for (auto& row : std::exchange(remembered_, {})) {
    const auto sandbox = registry_.by_id(row.sandbox);
    if (!sandbox) {
      // There is nobody to ask about it; whoever waits for a callback is told.
      row.status = "crashed";
      row.ended_unix_ms = unix_millis();
      row.result_json = R"({"reason":"sandbox_gone","error":"the sandbox ended while no server was running"})";
      call_back(row);
      continue;
    }
    const auto job = std::make_shared<Job>(sandbox->executor(), sandbox, std::move(row));
    live_.emplace(job->row.id, job);
    job->process = sandbox->find_process(sandbox::ProcessKind::execution, job->row.id);
    if (!job->process) {
      const bool in_kernel = !job->row.kernel.empty();
      fail_with(job, guest::Reason::shutdown,
                in_kernel ? "the server ended while it ran in its kernel" : "the server ended before it began");
      continue;
    }
    registry_.tasks().spawn("go on with an execution", watch(job));
  }
}

async::Task<> Jobs::watch(std::shared_ptr<Job> job) {
  const sandbox::Sandbox::Activity activity(job->sandbox);
  if (!job->row.started_unix_ms) job->row.started_unix_ms = job->process->started_unix_ms();
  if (!job->process->end() && job->row.deadline_boot_ms != 0)
    job->process->limit_time(std::max(milliseconds(0), milliseconds(job->row.deadline_boot_ms) - boot_time()));
  co_await follow(job);
}

json::object Jobs::to_json(const store::ExecutionRow& row) const {
  boost::system::error_code failed;
  json::object object{{"id", row.id},
                      {"sandbox", row.sandbox_name},
                      {"status", row.status},
                      {"language", row.language},
                      {"kernel", nullptr},
                      {"code", row.code},
                      {"createdAt", iso_time(row.created_unix_ms)},
                      {"startedAt", nullptr},
                      {"endedAt", nullptr}};
  if (!row.kernel.empty()) object["kernel"] = row.kernel;
  if (row.started_unix_ms) object["startedAt"] = iso_time(*row.started_unix_ms);
  if (row.ended_unix_ms) object["endedAt"] = iso_time(*row.ended_unix_ms);
  for (const auto* text : {&row.request_json, row.result_json ? &*row.result_json : nullptr}) {
    const auto part = text == nullptr ? json::value() : json::parse(*text, failed);
    if (failed || !part.is_object()) continue;
    for (const auto& [name, value] : part.as_object()) object[name] = value;
  }
  if (row.callback_url.empty()) return object;
  json::object callback{{"url", row.callback_url}, {"signed", !row.callback_secret.empty()}, {"status", "waiting"}};
  if (const auto told = registry_.store().callbacks().find(row.id); told && *told) {
    callback["status"] = (*told)->state;
    callback["attempts"] = (*told)->attempts;
    callback["lastStatus"] = (*told)->last_status;
    callback["lastError"] = replace_invalid_utf8((*told)->last_error);
    if ((*told)->state == "pending") callback["nextAttemptAt"] = iso_time((*told)->next_unix_ms);
  }
  object["callback"] = std::move(callback);
  return object;
}

}  // namespace cove::jobs
