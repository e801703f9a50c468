#include "sandbox/births.hpp"

#include <cstring>

#include "sandbox/poll_interval.hpp"
#include "sandbox/streams.hpp"

namespace cove::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kStartTime{30};  // for a process without a time limit
constexpr std::size_t kMaxSpawn = 2U << 20;     // about the kernel's limit for arguments and environment

bool is_below(std::string_view directory, std::string_view above) {
  return directory == above || (directory.starts_with(above) && directory[above.size()] == '/');
}

}  // namespace

std::string directory_of(const SandboxRecord& record, std::string_view given) {
  const std::string whole =
      given.starts_with('/') ? std::string(given) : fmt::format("{}/{}", record.row.directory, given);
  std::vector<std::string_view> parts;
  for (std::string_view rest = whole; !rest.empty();) {
    const auto part = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    if (part == ".." && !parts.empty()) parts.pop_back();
    if (!part.empty() && part != "." && part != "..") parts.push_back(part);
  }
  std::string out;
  for (const auto part : parts) out.append("/").append(part);
  return out.empty() ? "/" : out;
}

namespace {

tl::unexpected<Error> bad_directory(const std::string& directory, int why) {
  if (why == ENOENT) return fail(Errc::invalid, fmt::format("workdir does not exist: {}", directory));
  return fail(Errc::invalid, fmt::format("workdir cannot be used: {}: {}", directory, std::strerror(why)));
}

// It was given up before init said that it runs.
bool never_started(const Process& process) {
  return process.end() && process.phase() == Process::Phase::starting;
}

}  // namespace

Births::Births(SandboxContext& context, const SandboxRecord& record, InitSession& session, ProcessTable& processes,
               async::Signal& changed)
    : context_(context), record_(record), session_(session), processes_(processes), changed_(changed) {}

Births::Started Births::spawn(ProcessRequest request, wire::SpawnKind kind, std::vector<std::string> environment) {
  wire::Spawn spawn{.kind = kind};
  spawn.terminal = request.terminal ? wire::Terminal::yes : wire::Terminal::no;
  spawn.supervision = kind == wire::SpawnKind::program ? wire::Supervision::tree : wire::Supervision::none;
  spawn.rows = request.rows;
  spawn.columns = request.columns;
  spawn.output_limit = {.bytes = request.output_limit, .kept = request.kept};
  spawn.directory = request.directory;
  spawn.argv = request.argv;
  spawn.files = request.files;
  spawn.environment = std::move(environment);
  spawn.channel = request.channel ? wire::Channel::open : wire::Channel::none;
  if (wire::encode(spawn).size() > kMaxSpawn)
    co_return fail(Errc::invalid, "cmd and env are larger than 2 MiB in total");

  const bool no_input = request.input == InputMode::none;
  auto added = processes_.add(std::move(request));
  if (!added) co_return added;
  const auto process = *added;
  session_.link()->spawn(process->number(), spawn);
  if (no_input && spawn.terminal == wire::Terminal::no) session_.link()->end_input(process->number());
  session_.flush();
  co_await wait_until_started(process);
  if (record_.state == State::paused && never_started(*process)) co_return not_startable(record_);
  co_return process;
}

// A paused or starved sandbox may never answer: the time limit counts from here.
async::Task<> Births::wait_until_started(std::shared_ptr<Process> process) {
  const auto abandoned = process->take_abandoned();
  const auto until = Clock::now() + process->request().timeout.value_or(kStartTime);
  const auto waits = [&] { return process->phase() == Process::Phase::starting && !process->finished(); };
  while (waits()) {
    co_await process->changed().wait_until(Clock::now() + kPollInterval);
    if (!waits()) break;
    const bool late = Clock::now() >= until;
    if (!late && record_.state != State::paused && !(abandoned && abandoned())) continue;
    process->give_up_start(late ? Reason::timeout : Reason::cancelled);
    processes_.forget(process);
  }
  if (process->phase() == Process::Phase::failed) processes_.withdraw(process);
}

async::Task<Result<std::optional<wire::SpawnFailed>>> Births::make_directory(std::string path) {
  ProcessRequest request{.kind = ProcessKind::internal, .argv = {std::move(path)}, .directory = "/"};
  auto made = co_await spawn(std::move(request), wire::SpawnKind::make_directory, {});
  if (!made) co_return tl::unexpected<Error>(made.error());
  while (!(*made)->finished() && !(*made)->failure()) co_await (*made)->changed().wait();
  if (session_.connected()) processes_.forget(*made);
  if (record_.state != State::running || !session_.connected()) co_return not_startable(record_);
  co_return (*made)->failure();
}

Births::Started Births::program(ProcessRequest request, std::vector<std::string> environment) {
  request.directory = directory_of(record_, request.directory);
  auto process = co_await spawn(request, wire::SpawnKind::program, environment);
  if (!process) co_return process;
  auto failure = (*process)->failure();
  const bool missing = failure && failure->stage == wire::SpawnStage::directory && failure->sys_errno == ENOENT;
  const bool ours = is_below(request.directory, "/workspace") || is_below(request.directory, record_.row.directory);
  if (missing && ours && session_.connected()) {
    auto refused = co_await make_directory(request.directory);
    if (!refused) co_return tl::unexpected<Error>(refused.error());
    failure = *refused;
    if (!failure) {
      process = co_await spawn(request, wire::SpawnKind::program, std::move(environment));
      if (!process) co_return process;
      failure = (*process)->failure();
    }
  }
  if (failure && failure->stage == wire::SpawnStage::directory)
    co_return bad_directory(request.directory, failure->sys_errno);
  if (failure) (*process)->fail_to_start(*failure, request.argv.front());
  co_return process;
}

Births::Started Births::fork_zygote(ProcessRequest request, wire::KeeperRequest birth) {
  auto streams = make_streams();
  if (!streams) co_return tl::unexpected<Error>(streams.error());
  const bool no_input = request.input == InputMode::none;
  request.tag.birth = Birth::warm;
  birth.light = request.light ? 1 : 0;
  auto added = processes_.add(std::move(request));
  if (!added) co_return added;
  const auto process = *added;
  birth.zygote = context_.zygotes.of(record_.row.tenant);
  ++pending_;
  auto born = co_await context_.keeper.ask(birth, std::move(streams->child));
  --pending_;
  changed_.notify_all();
  if (born && !process->finished() && session_.connected()) {
    session_.link()->handover(
        process->number(),
        {.pid = born->born_pid,
         .output_limit = {.bytes = process->request().output_limit, .kept = process->request().kept}},
        std::move(streams->init));
    if (no_input) session_.link()->end_input(process->number());
    session_.flush();
    co_await wait_until_started(process);
    if (record_.state == State::paused && never_started(*process)) co_return not_startable(record_);
    co_return process;
  }
  // An interpreter that starts anyway finds its channel closed, and exits.
  processes_.withdraw(process);
  if (!born) co_return tl::unexpected<Error>(born.error());
  co_return not_startable(record_);
}

async::Task<Result<>> Births::keep_spare(wire::KeeperRequest birth, SpareUse use, std::string expected) {
  ProcessRequest request{
      .kind = ProcessKind::internal, .argv = {"python3"}, .directory = "/", .input = InputMode::open, .channel = true};
  request.light = use == SpareUse::light_program;
  auto born = co_await fork_zygote(std::move(request), std::move(birth));
  if (!born) co_return tl::unexpected<Error>(born.error());
  if ((*born)->end() || (*born)->failure()) co_return fail(Errc::unavailable, "the interpreter did not start");
  if (auto told = (*born)->send(expected); !told) co_return told;
  ++context_.pythons.warm;
  spare_ = std::move(*born);
  spare_use_ = use;
  co_return Result<>();
}

// The spare was forked before there was a request: init gets the request's settings now.
std::shared_ptr<Process> Births::take_spare(const ProcessRequest& request) {
  // One that waits for a program has put away what a kernel needs.
  if (spare_use_ != SpareUse::kernel && request.kind == ProcessKind::kernel) return nullptr;
  const auto spare = std::exchange(spare_, nullptr);
  if (!spare || spare->end() || !session_.connected()) return nullptr;
  auto own = request;
  own.tag.birth = Birth::warm;
  if (!processes_.assign(*spare, std::move(own))) return nullptr;
  session_.link()->limit_output(spare->number(), {.bytes = request.output_limit, .kept = request.kept});
  if (request.input == InputMode::none) session_.link()->end_input(spare->number());
  session_.flush();
  return spare;
}

Births::Started Births::python(ProcessRequest request, std::vector<std::string> environment,
                               wire::KeeperRequest birth) {
  request.channel = true;
  request.directory = "/";  // it goes where its first message says
  if (request.argv.empty()) request.argv = {"python3"};
  if (auto spare = take_spare(request)) co_return spare;
  auto born = co_await fork_zygote(request, std::move(birth));
  if (born && !(*born)->failure()) {
    ++context_.pythons.warm;
    co_return born;
  }
  if (record_.state != State::running || !session_.connected()) co_return not_startable(record_);
  ++context_.pythons.cold;
  // The other arguments stay, for the list of processes.
  const auto shown = std::exchange(request.argv, {"/usr/bin/python3", "-I", "-B", "/cove/python/cold.py"});
  request.argv.insert(request.argv.end(), shown.begin() + 1, shown.end());
  auto started = co_await spawn(std::move(request), wire::SpawnKind::program, std::move(environment));
  if (started && (*started)->failure()) (*started)->fail_to_start(*(*started)->failure(), "python3");
  co_return started;
}

Births::Started Births::node(ProcessRequest request, std::vector<std::string> environment) {
  request.channel = true;
  request.directory = "/";
  request.argv = {"node", "/cove/javascript/kernel.js"};
  auto started = co_await spawn(std::move(request), wire::SpawnKind::program, std::move(environment));
  if (started && (*started)->failure()) (*started)->fail_to_start(*(*started)->failure(), "node");
  co_return started;
}

}  // namespace cove::sandbox
