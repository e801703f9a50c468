#include "replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "json/fields.hpp"
#include "run/act.hpp"
#include "run/cell.hpp"
#include "sandbox/files.hpp"
#include "sandbox/journal_outcome.hpp"

namespace cove::replay {

namespace json = boost::json;
using async::Task;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint32_t kPage = 500;
constexpr milliseconds kBackgroundGrace{5000};  // beyond the time that it took before
constexpr milliseconds kSlower{10'000};         // the same for what is waited for, beside three times that time
constexpr milliseconds kPoll{100};
constexpr milliseconds kInterruptAgain{2000};
constexpr std::chrono::seconds kFileTime{120};

template <typename T>
T number(const json::object& object, std::string_view name, T otherwise) {
  const auto* value = object.if_contains(name);
  if (value == nullptr) return otherwise;
  boost::system::error_code failed;
  const auto read = value->to_number<T>(failed);
  return failed ? otherwise : read;
}

bool flag(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_bool() && value->as_bool();
}

json::object object_in(const std::string& text) {
  boost::system::error_code failed;
  auto value = json::parse(text, failed);
  return failed || !value.is_object() ? json::object() : std::move(value.as_object());
}

// What took this long before has ended after that time, or does not end. Somebody may have stopped it then.
milliseconds most_time(const store::ActivityRow& act) {
  return milliseconds(3 * act.duration_ms.value_or(0)) + kSlower;
}

// Only what changes a sandbox: what asks, ends or waits does not.
bool worth_repeating(const store::ActivityRow& act) {
  namespace kind = journal::kind;
  if (act.kind == kind::kLifecycle) return act.summary == "updated";
  if (act.kind == kind::kKernel) return act.summary.starts_with("restart ");
  return true;
}

sandbox::CreateRequest like(const json::object& first) {
  sandbox::CreateRequest request;
  request.template_name = cove::json::text_of(first, "template");
  request.limits = {.memory_bytes = number<std::uint64_t>(first, "memoryBytes", 0),
                    .disk_bytes = number<std::uint64_t>(first, "diskBytes", 0),
                    .inodes = number<std::uint64_t>(first, "inodes", 0),
                    .pids = number<std::uint32_t>(first, "pids", 0),
                    .cpu_millis = number<std::uint32_t>(first, "cpuMillis", 0)};
  request.env_json = cove::json::text_of(first, "env");
  request.labels_json = cove::json::text_of(first, "labels");
  request.directory = cove::json::text_of(first, "directory");
  return request;
}

std::string shown(const json::value& value) {
  return value.is_string() ? std::string(value.as_string()) : json::serialize(value);
}

// Whoever is compared may have ended a moment ago: the newest act of the sandbox.
Result<store::ActivityRow> newest(journal::Journal& journal, const sandbox::Sandbox& sandbox, std::int64_t from) {
  COVE_TRY(auto rows, journal.read({.tenant = sandbox.tenant(), .sandbox = sandbox.row().id, .from = from}));
  if (rows.empty()) return fail(Errc::io, "the journal does not say how it ended");
  return std::move(rows.front());
}

}  // namespace

std::string_view name_of(Step::State state) {
  return state == Step::State::same ? "same" : state == Step::State::differs ? "differs" : "skipped";
}

std::vector<std::string> differences(const store::ActivityRow& first, const store::ActivityRow& second) {
  std::vector<std::string> found;
  if (first.outcome != second.outcome) found.push_back(fmt::format("{}, was {}", second.outcome, first.outcome));
  const auto before = object_in(first.result_json);
  const auto now = object_in(second.result_json);
  const auto value_of = [](const json::object& object, std::string_view name) {
    const auto* value = object.if_contains(name);
    return value == nullptr ? json::value() : *value;
  };
  for (const auto* name : {"signal", "ename", "bytes"}) {
    const auto was = value_of(before, name);
    const auto is = value_of(now, name);
    if (was != is) found.push_back(fmt::format("{}: {}, was {}", name, shown(is), shown(was)));
  }
  for (const auto* stream : {"stdout", "stderr", "result", "error"}) {
    const auto was = value_of(before, stream);
    const auto is = value_of(now, stream);
    if (was == is) continue;
    const auto bytes = [](const json::value& value) {
      return value.is_object() ? number<std::uint64_t>(value.as_object(), "bytes", 0) : 0;
    };
    found.push_back(bytes(was) == bytes(is) ? fmt::format("{}: other {} bytes", stream, bytes(is))
                                            : fmt::format("{}: {} bytes, was {}", stream, bytes(is), bytes(was)));
  }
  return found;
}

Task<Result<std::unique_ptr<Replay>>> Replay::begin(sandbox::Core& core, packages::Installs& installs,
                                                    run::Caller caller, Wish wish) {
  auto& journal = core.registry.journal();
  std::vector<store::ActivityRow> acts;
  store::ActivityQuery query{.tenant = caller.principal.tenant, .sandbox = wish.sandbox, .limit = kPage};
  while (true) {
    COVE_CO_TRY(auto page, journal.read(query));
    if (page.empty()) break;
    query.from = page.back().seq + 1;
    std::ranges::move(page, std::back_inserter(acts));
  }
  if (acts.empty() || acts.front().kind != journal::kind::kLifecycle || acts.front().summary != "created")
    co_return fail(Errc::not_found, "the journal does not have the beginning of this sandbox any more");
  if (wish.until != INT64_MAX && std::ranges::none_of(acts, [&](const auto& act) { return act.seq == wish.until; }))
    co_return fail(Errc::invalid, fmt::format("until: the journal of this sandbox has no act {}", wish.until));
  COVE_CO_TRY(const auto first, journal.repeat_of(acts.front().seq));
  if (first.empty())
    co_return fail(Errc::not_found, "the journal does not say how this sandbox was made: it is of an earlier version");
  auto request = like(first);
  request.tenant = caller.principal.tenant;
  request.name = std::move(wish.name);
  request.ttl = wish.ttl;
  request.actor = journal::actor_of(caller.principal);
  const auto quotas = core.authority.allowance(caller.principal).sandboxes;
  COVE_CO_TRY(auto made, co_await core.registry.ensure(std::move(request), quotas, sandbox::IfThere::refuse));
  auto replay = std::unique_ptr<Replay>(new Replay(core, installs, std::move(caller), made.sandbox));
  for (auto& act : acts) {
    if (act.seq <= wish.until && worth_repeating(act)) replay->acts_.push_back(std::move(act));
  }
  co_return replay;
}

Replay::Replay(sandbox::Core& core, packages::Installs& installs, run::Caller caller,
               std::shared_ptr<sandbox::Sandbox> sandbox)
    : core_(core), installs_(installs), caller_(std::move(caller)), sandbox_(std::move(sandbox)), activity_(sandbox_) {}

Replay::~Replay() = default;

Task<std::optional<Step>> Replay::next() {
  if (caller_.gone()) co_return std::nullopt;
  while (at_ < acts_.size()) {
    auto act = std::move(acts_[at_++]);
    const auto waiting = background_.size();
    auto step = co_await repeat(std::move(act));
    if (background_.size() == waiting) co_return step;  // or it is compared when it has ended
  }
  if (background_.empty()) co_return std::nullopt;
  auto one = std::move(background_.front());
  background_.erase(background_.begin());
  auto step = co_await finish_background(std::move(one));
  co_return step;
}

Task<Step> Replay::repeat(store::ActivityRow act) {
  auto& journal = core_.registry.journal();
  Step step{.act = act};
  const auto skip = [&step](std::string why) {
    step.state = Step::State::skipped;
    step.why = std::move(why);
  };
  if (!act.duration_ms) {
    skip("it goes on there");
    co_return step;
  }
  const auto kept = journal.repeat_of(act.seq);
  if (!kept || kept->empty()) {
    skip(!kept ? kept.error().message
               : "what it takes to do it again is not kept: input of a terminal, or more than journal.act_size");
    co_return step;
  }
  const auto from = journal.last_seq() + 1;
  Result<> done;
  namespace kind = journal::kind;
  if (act.kind == kind::kCommand || act.kind == kind::kProgram)
    done = co_await run_again(act, *kept);
  else if (act.kind == kind::kCell)
    done = co_await execute_again(act, *kept);
  else if (act.kind == kind::kFile)
    done = co_await change_files_again(*kept);
  else if (act.kind == kind::kPackages)
    done = co_await install_again(*kept);
  else if (act.kind == kind::kKernel) {
    if (const auto kernel = co_await kernel_for(*kept))
      done = co_await (*kernel)->restart(journal::actor_of(caller_.principal));
  } else if (act.kind == kind::kLifecycle) {
    const sandbox::SandboxLimits limits{.memory_bytes = number<std::uint64_t>(*kept, "memoryBytes", 0),
                                        .disk_bytes = number<std::uint64_t>(*kept, "diskBytes", 0),
                                        .pids = number<std::uint32_t>(*kept, "pids", 0),
                                        .cpu_millis = number<std::uint32_t>(*kept, "cpuMillis", 0)};
    done = co_await core_.registry.set_limits(sandbox_, limits, core_.authority.allowance(caller_.principal).sandboxes);
  } else {
    skip(fmt::format("acts of the kind {} are not done again", act.kind));
    co_return step;
  }
  const auto again = newest(journal, *sandbox_, from);
  if (!again) {
    step.state = Step::State::differs;
    step.outcome = "failed";
    step.differences.push_back(done ? again.error().message : done.error().message);
    co_return step;
  }
  if (started_) {
    background_.push_back({.act = act, .process = std::exchange(started_, nullptr), .again = again->seq});
    co_return step;
  }
  step.outcome = again->outcome;
  step.differences = differences(act, *again);
  if (!step.differences.empty()) step.state = Step::State::differs;
  co_return step;
}

Task<Step> Replay::finish_background(Background one) {
  Step step{.act = one.act};
  const auto until = Clock::now() + milliseconds(one.act.duration_ms.value_or(0)) + kBackgroundGrace;
  while (!one.process->end() && Clock::now() < until && !caller_.gone())
    co_await one.process->changed().wait_until(Clock::now() + kPoll);
  const auto again = newest(core_.registry.journal(), *sandbox_, one.again);
  if (!again || !again->duration_ms) {
    step.state = Step::State::differs;
    step.outcome = "running";
    step.differences.push_back(fmt::format("it still runs, was {}", one.act.outcome));
    co_return step;
  }
  step.outcome = again->outcome;
  step.differences = differences(one.act, *again);
  if (!step.differences.empty()) step.state = Step::State::differs;
  co_return step;
}

Task<Result<>> Replay::run_again(const store::ActivityRow& act, const json::object& repeat) {
  COVE_CO_TRY(auto spec, run::spec_of(act.kind, repeat));
  spec.actor = journal::actor_of(caller_.principal);
  if (spec.process.kind == sandbox::ProcessKind::background) {
    COVE_CO_CHECK(run::admit_background(core_, caller_.principal));
    COVE_CO_TRY(started_, co_await run::start(sandbox_, std::move(spec)));
    co_return Result<>();
  }
  if (!spec.process.timeout) spec.process.timeout = most_time(act);
  COVE_CO_TRY(const auto ticket, co_await run::admit(core_, caller_));
  auto run = co_await run::Run::begin(caller_, sandbox_, std::move(spec));
  if (!run) co_return tl::unexpected<Error>(run.error());
  if (!co_await run->wait()) co_return fail(Errc::unavailable, "the request was abandoned");
  co_return Result<>();
}

Task<Result<std::shared_ptr<sandbox::Kernel>>> Replay::kernel_for(const json::object& repeat) {
  const auto id = cove::json::text_of(repeat, "kernel");
  if (const auto found = kernels_.find(id);
      found != kernels_.end() && found->second->state() != sandbox::Kernel::State::dead)
    co_return found->second;
  const auto language = sandbox::find_kernel_language(cove::json::text_of(repeat, "language"));
  sandbox::KernelOptions options{.language = language.value_or(sandbox::KernelLanguage::python)};
  if (const auto* variables = repeat.if_contains("variables"); variables != nullptr && variables->is_array()) {
    for (const auto& variable : variables->as_array()) {
      if (variable.is_string()) options.variables.emplace_back(variable.as_string());
    }
  }
  COVE_CO_TRY(auto kernel, co_await core_.registry.kernels().start(sandbox_, std::move(options)));
  kernels_[id] = kernel;
  co_return kernel;
}

Task<Result<>> Replay::execute_again(const store::ActivityRow& act, const json::object& repeat) {
  COVE_CO_TRY(auto kernel, co_await kernel_for(repeat));
  COVE_CO_TRY(auto ticket, co_await run::admit(core_, caller_));
  sandbox::ExecuteRequest request{.code = cove::json::text_of(repeat, "code")};
  request.file = cove::json::text_of(repeat, "file");
  request.stay = true;
  const auto timeout = number<std::int64_t>(repeat, "timeoutMs", 0);
  request.timeout = timeout > 0 ? milliseconds(timeout) : most_time(act);
  run::Workplace workplace(std::move(ticket), sandbox_);
  auto cell = run::Cell::begin(caller_, std::move(workplace), kernel, std::move(request));
  if (!cell) co_return tl::unexpected<Error>(cell.error());
  const auto execution = cell->execution();
  const bool interrupted = cove::json::text_of(object_in(act.result_json), "ename") == "KeyboardInterrupt";
  auto interrupt_at = Clock::now() + milliseconds(act.duration_ms.value_or(0));
  while (!execution->end()) {
    if (interrupted && Clock::now() >= interrupt_at) {
      [[maybe_unused]] const auto sent = kernel->interrupt();
      interrupt_at += kInterruptAgain;
    }
    if (execution->waits_for_input()) [[maybe_unused]]
      const auto told = kernel->reply_input(std::nullopt);
    co_await execution->changed().wait_until(Clock::now() + kPoll);
    if (caller_.gone()) co_return fail(Errc::unavailable, "the request was abandoned");
  }
  co_return Result<>();
}

Task<Result<>> Replay::change_files_again(const json::object& repeat) {
  const auto verb = cove::json::text_of(repeat, "verb");
  const auto path = cove::json::text_of(repeat, "path");
  const auto bounds = cove::json::text_of(repeat, "confined");
  const auto confined = bounds == "workspace"   ? sandbox::Confined::to_workspace
                        : bounds == "directory" ? sandbox::Confined::to_directory
                                                : sandbox::Confined::no;
  auto abandoned = [gone = caller_.gone, until = Clock::now() + kFileTime] { return gone() || Clock::now() > until; };
  const sandbox::SandboxFiles files(sandbox_, std::move(abandoned), confined, journal::actor_of(caller_.principal));
  if (verb == "mkdir") {
    COVE_CO_CHECK(co_await files.make_directory(path));
    co_return Result<>();
  }
  if (verb == "remove") {
    const auto recursive = flag(repeat, "recursive") ? sandbox::Recursive::yes : sandbox::Recursive::no;
    co_return co_await files.remove(path, recursive);
  }
  if (verb == "rename") {
    const auto overwrite = flag(repeat, "overwrite") ? sandbox::Overwrite::yes : sandbox::Overwrite::no;
    COVE_CO_CHECK(co_await files.rename(path, cove::json::text_of(repeat, "to"), overwrite));
    co_return Result<>();
  }
  auto content = from_base64(cove::json::text_of(repeat, "content"));
  if (!content) co_return fail(Errc::io, "the journal's record of this act is damaged");
  if (verb == "write") {
    const sandbox::WriteOptions options{
        .permissions = number<std::uint32_t>(repeat, "permissions", 0644),
        .mode = flag(repeat, "append") ? sandbox::WriteMode::append : sandbox::WriteMode::replace};
    COVE_CO_CHECK(co_await files.write_all(path, std::move(*content), options));
    co_return Result<>();
  }
  const sandbox::UploadLimits limits{.bytes = number<std::uint64_t>(repeat, "maxBytes", 0),
                                     .members = number<std::uint64_t>(repeat, "maxMembers", 0),
                                     .depth = number<std::uint64_t>(repeat, "maxDepth", 0),
                                     .ratio = number<std::uint64_t>(repeat, "maxRatio", 0),
                                     .absolute_names = flag(repeat, "absoluteNames")};
  COVE_CO_TRY(auto archive, co_await files.upload(path, limits));
  // One that takes no more has found fault; finish() says which.
  [[maybe_unused]] const auto taken = co_await archive.write(std::move(*content));
  COVE_CO_CHECK(co_await archive.finish());
  co_return Result<>();
}

Task<Result<>> Replay::install_again(const json::object& repeat) {
  packages::InstallRequest request;
  request.actor = journal::actor_of(caller_.principal);
  if (const auto* packages = repeat.if_contains("packages"); packages != nullptr && packages->is_array()) {
    for (const auto& package : packages->as_array()) {
      if (!package.is_object()) continue;
      request.packages.push_back({.name = cove::json::text_of(package.as_object(), "name"),
                                  .version = cove::json::text_of(package.as_object(), "version")});
    }
  }
  request.timeout = milliseconds(number<std::int64_t>(repeat, "timeoutMs", 300'000));
  const auto config = core_.config();
  COVE_CO_CHECK(packages::choose_index(request, config->dependencies, cove::json::text_of(repeat, "index"), "index"));
  COVE_CO_CHECK(installs_.begin(sandbox_, std::move(request)));
  while (true) {
    const auto status = installs_.status(*sandbox_);
    const auto word = cove::json::text_of(status, "status");
    if (word != "pending" && word != "installing") co_return Result<>();
    if (caller_.gone()) installs_.cancel(*sandbox_);
    co_await sandbox_->changed().wait_until(Clock::now() + kPoll);
  }
}

}  // namespace cove::replay
