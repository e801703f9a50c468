// The processes of a sandbox: from the request to what is remembered of the end.
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstring>

#include "base/clock.hpp"
#include "sandbox/environment.hpp"
#include "sandbox/sandbox.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
namespace json = boost::json;

constexpr std::ptrdiff_t kMostProcesses = 64;  // running in one sandbox, besides what it starts itself
constexpr std::size_t kFinishedKept = 64;      // ended processes a sandbox remembers
constexpr milliseconds kReleaseGrace{5000};
constexpr milliseconds kCountTime{20};        // that a start waits for the counters of the ends before it
constexpr std::size_t kHeldMost = 4U << 20;   // bytes of events of one sandbox in the server's memory
constexpr std::size_t kSpawnMost = 2U << 20;  // what the kernel takes of arguments and environment, about

std::string normal_directory(std::string_view given) {
  const std::string whole = given.starts_with('/') ? std::string(given) : fmt::format("/workspace/{}", given);
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

// A command to show: its first words, each cut.
void shorten(std::vector<std::string>& words) {
  constexpr std::size_t kWords = 64;
  constexpr std::size_t kBytes = 1024;
  if (words.size() > kWords) {
    words.resize(kWords);
    words.emplace_back("…");
  }
  for (auto& word : words) {
    if (word.size() <= kBytes) continue;
    word.resize(kBytes);
    word.shrink_to_fit();
    word += "…";
  }
}

std::string json_of(const std::vector<std::string>& texts) {
  json::array array;
  for (const auto& text : texts) array.emplace_back(text);
  return json::serialize(array);
}

// Those that a front after us is to find again.
bool is_recorded(const ProcessRequest& request) {
  return request.kind == ProcessKind::background || request.kind == ProcessKind::kernel ||
         request.kind == ProcessKind::execution;
}

std::string_view name_of(ProcessKind kind) {
  return kind == ProcessKind::kernel ? "kernel" : kind == ProcessKind::execution ? "execution" : "background";
}

}  // namespace

// How a process ended, from what init and the control group say.
async::Task<> Sandbox::conclude(std::shared_ptr<Sandbox> self, std::shared_ptr<Process> process) {
  const auto exited = process->exited_;
  if (!exited || process->end_) co_return;
  if (process->judged_) {
    process->finish(*process->judged_);
    co_return;
  }
  Evidence evidence{.stopped_by_us = process->stopped_by_us_,
                    .exit_seen = true,
                    .exit_code = exited->exit_code,
                    .signal = exited->signal,
                    .disk_full = exited->disk_free_bytes < 4096 || exited->disk_free_inodes == 0};
  // A good end needs no explanation: what was refused on the way to it is counted when the answer is on its way.
  const bool explained =
      process->request_.kind != ProcessKind::internal && (exited->exit_code != 0 || process->stopped_by_us_);
  if (explained) {
    const auto counted = co_await self->inspect();
    if (process->end_) co_return;
    if (counted) {
      evidence.oom_kills = counted->oom_kills - std::min(counted->oom_kills, process->oom_kills_before_);
      evidence.pids_refused = counted->pids_refused - std::min(counted->pids_refused, process->pids_refused_before_);
    }
  }
  ProcessEnd end{.reason = judge(evidence), .signal = exited->signal};
  end.exit_status = end.reason == Reason::shutdown ? 128 + SIGKILL : exit_status(end.reason, evidence);
  end.wall = process->age();
  end.cpu = milliseconds(exited->cpu_usec / 1000);
  end.out_bytes = exited->out_bytes;
  end.err_bytes = exited->err_bytes;
  end.made = exited->made;
  process->finish(std::move(end));
  self->record_end(*process);
  if (process->released_) self->forget(process);
  if (!explained && process->request_.kind != ProcessKind::internal) co_await self->count_again();
}

// Brings the counters up to date, so that the next process is not charged with what was refused before it.
async::Task<> Sandbox::count_again() {
  const auto self = shared_from_this();
  uncounted_ = true;
  if (counting_) co_return;
  counting_ = true;
  while (state_ == State::running && std::exchange(uncounted_, false)) {
    if (!co_await inspect()) break;
  }
  counting_ = false;
  changed_.notify_all();
}

void Sandbox::record_end(Process& process) {
  if (process.request_.kind == ProcessKind::internal || state_ == State::deleting || purpose_ == Purpose::throwaway)
    return;
  const auto& end = *process.end_;
  const store::ProcessEnd row{.ended_unix_ms = unix_millis(),
                              .reason = std::string(name_of(end.reason)),
                              .exit_code = end.exit_status,
                              .signal = end.signal,
                              .duration_ms = end.wall.count(),
                              .cpu_ms = end.cpu.count(),
                              .stdout_bytes = end.out_bytes,
                              .stderr_bytes = end.err_bytes,
                              .last_seq = process.last_sequence()};
  // Without it a front after us would judge the end anew from what init says; nothing is lost.
  [[maybe_unused]] const auto written = surroundings_.store.processes().finish(row_.id, process.number_, row);
  prune_finished();
}

void Sandbox::prune_finished() {
  std::size_t finished = 0;
  for (auto it = processes_.rbegin(); it != processes_.rend(); ++it) finished += it->second->end_ ? 1 : 0;
  for (auto it = processes_.begin(); it != processes_.end() && finished > kFinishedKept;) {
    const auto process = (it++)->second;
    if (!process->end_ || process->request_.kind == ProcessKind::internal) continue;
    forget(process);
    --finished;
  }
}

std::shared_ptr<Process> Sandbox::find_process(std::uint32_t number) const {
  const auto found = processes_.find(number);
  return found == processes_.end() ? nullptr : found->second;
}

std::shared_ptr<Process> Sandbox::find_known_by(std::string_view name) const {
  const auto found =
      std::ranges::find_if(processes_, [name](const auto& entry) { return entry.second->request_.known_by == name; });
  return found == processes_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Process>> Sandbox::processes() const {
  std::vector<std::shared_ptr<Process>> out;
  for (const auto& [number, process] : processes_) {
    if (process->request_.kind == ProcessKind::exec || process->request_.kind == ProcessKind::background)
      out.push_back(process);
  }
  return out;
}

std::vector<std::string> Sandbox::environment(const ProcessRequest& request) const {
  auto variables = base_environment();
  if (request.terminal) set_variable(variables, "TERM=xterm-256color");
  boost::system::error_code failed;
  if (const auto own = json::parse(row_.env_json, failed); !failed && own.is_object()) {
    for (const auto& [name, value] : own.as_object()) {
      if (value.is_string())
        set_variable(variables, fmt::format("{}={}", std::string_view(name), std::string_view(value.as_string())));
    }
  }
  for (const auto& variable : request.variables) set_variable(variables, variable);
  return variables;
}

// Written before it exists, if it is to be found again after a restart.
Result<> Sandbox::write_down(std::uint32_t number, const ProcessRequest& request) {
  if (!is_recorded(request)) return {};
  auto shown = request.known_by.empty() ? request.argv : std::vector{request.known_by};
  shorten(shown);
  return surroundings_.store.processes().insert(
      {.sandbox = row_.id,
       .number = number,
       .kind = std::string(name_of(request.kind)),
       .command_json = json_of(shown),
       .terminal = request.terminal,
       .input_open = request.input == InputMode::open,
       .started_unix_ms = unix_millis(),
       .deadline_boot_ms = request.timeout ? (boot_time() + *request.timeout).count() : 0});
}

std::shared_ptr<Process> Sandbox::add(std::uint32_t number, ProcessRequest request) {
  // Kept for as long as it may be listed: a name to know it by is enough.
  shorten(request.argv);
  request.variables.clear();
  request.files.clear();
  const auto process = std::make_shared<Process>(surroundings_.executor, *this, number, std::move(request));
  charge(*process);
  processes_.emplace(number, process);
  return process;
}

void Sandbox::charge(Process& process) const {
  process.oom_kills_before_ = oom_kills_;
  process.pids_refused_before_ = pids_refused_;
}

// As if it had never been.
void Sandbox::take_back(const std::shared_ptr<Process>& process) {
  processes_.erase(process->number_);
  process->sandbox_ = nullptr;
  if (is_recorded(process->request_)) [[maybe_unused]]
    const auto erased = surroundings_.store.processes().erase(row_.id, process->number_);
}

// A sandbox that is paused, or has no processor time, may take for ever: its time limit counts from here.
async::Task<> Sandbox::see_born(std::shared_ptr<Process> process) {
  const auto until = std::chrono::steady_clock::now() + process->request_.timeout.value_or(kBirthTime);
  while (process->birth_ == Process::Birth::pending && !process->end_) {
    co_await process->changed().wait_until(std::chrono::steady_clock::now() + kLookAgain);
    if (process->birth_ != Process::Birth::pending || process->end_) break;
    const bool late = std::chrono::steady_clock::now() >= until;
    if (!late && !(process->request_.abandoned && process->request_.abandoned())) continue;
    process->finish({.reason = late ? Reason::timeout : Reason::cancelled, .exit_status = late ? 124 : 128 + SIGKILL});
    if (link_) link_->kill_tree(process->number_);
    forget(process);
  }
  if (process->birth_ == Process::Birth::failed) take_back(process);
}

void Sandbox::forget(const std::shared_ptr<Process>& process) {
  if (!process->end_) process->stop(Reason::cancelled);
  if (processes_.erase(process->number_) == 0) return;
  remembered_.erase(process->number_);
  if (process->request_.delivery == Delivery::newest && !process->request_.whole) let_go(process->held_);
  process->sandbox_ = nullptr;
  if (process->request_.kind != ProcessKind::internal && purpose_ == Purpose::named) [[maybe_unused]]
    const auto erased = surroundings_.store.processes().erase(row_.id, process->number_);
  if (!process->end_) {
    process->finish(
        {.reason = Reason::cancelled, .exit_status = 128 + SIGKILL, .signal = SIGKILL, .wall = process->age()});
  }
  if (!link_) return;
  link_->forget(process->number_);
  flush();
}

// Whoever holds most gives up its oldest, so that of each process the newest stays.
void Sandbox::hold(std::size_t bytes) {
  held_ += bytes;
  while (held_ > kHeldMost) {
    Process* largest = nullptr;
    for (const auto& [number, process] : processes_) {
      if (process->request_.delivery != Delivery::newest || process->request_.whole || process->events_.size() < 2)
        continue;
      if (largest == nullptr || process->held_ > largest->held_) largest = process.get();
    }
    if (largest == nullptr) return;
    largest->drop_oldest();
  }
}

void Sandbox::release(const std::shared_ptr<Process>& process) {
  if (process->end_ || process->sandbox_ == nullptr) {
    forget(process);
    return;
  }
  process->released_ = true;
  process->arm(kReleaseGrace);
}

void Sandbox::kill_everything() {
  if (!link_) return;
  link_->kill_everything();
  flush();
}

async::Task<Result<std::shared_ptr<Process>>> Sandbox::attempt(ProcessRequest request, wire::SpawnKind kind) {
  wire::Spawn spawn{.kind = kind};
  spawn.terminal = request.terminal ? wire::Terminal::yes : wire::Terminal::no;
  spawn.supervision = kind == wire::SpawnKind::program ? wire::Supervision::tree : wire::Supervision::none;
  spawn.rows = request.rows;
  spawn.columns = request.columns;
  spawn.output_limit = request.output_limit;
  spawn.directory = request.directory;
  spawn.argv = request.argv;
  spawn.files = request.files;
  spawn.environment = environment(request);
  spawn.channel = request.channel ? wire::Channel::open : wire::Channel::none;

  if (wire::encode(spawn).size() > kSpawnMost)
    co_return fail(Errc::invalid, "cmd and env are larger than 2 MiB together");

  const auto number = row_.next_process++;
  if (auto written = write_down(number, request); !written) co_return tl::unexpected<Error>(written.error());
  const bool no_input = request.input == InputMode::none;
  const auto process = add(number, std::move(request));
  link_->spawn(number, spawn);
  if (no_input && spawn.terminal == wire::Terminal::no) link_->end_input(number);
  flush();
  co_await see_born(process);
  co_return process;
}

// To start a process in it.
async::Task<Result<>> Sandbox::be_ready(ProcessKind kind, std::function<bool()> abandoned) {
  // Numbers are given when init has told which are taken.
  const auto until = std::chrono::steady_clock::now() + kBirthTime;
  while (state_ == State::creating || (state_ == State::running && link_ && !synced_)) {
    if (std::chrono::steady_clock::now() > until) co_return fail(Errc::unavailable, "the sandbox does not answer");
    if (abandoned && abandoned()) co_return fail(Errc::unavailable, "nobody waits for it any more");
    co_await changed_.wait_until(std::chrono::steady_clock::now() + kLookAgain);
  }
  const auto counted = std::chrono::steady_clock::now() + kCountTime;
  while (counting_ && kind != ProcessKind::internal && co_await changed_.wait_until(counted)) {
  }
  if (state_ == State::paused) co_return fail(Errc::conflict, "the sandbox is paused: resume it first");
  if (state_ != State::running || !link_) co_return not_there();
  if (kind == ProcessKind::background) {
    const auto others = processes();
    if (std::ranges::count_if(others, [](const auto& other) { return !other->end(); }) >= kMostProcesses)
      co_return fail(Errc::quota,
                     fmt::format("{} processes run in this sandbox already: end one first", kMostProcesses));
  }
  co_return Result<>();
}

async::Task<Result<std::shared_ptr<Process>>> Sandbox::start(ProcessRequest request) {
  const auto self = shared_from_this();
  if (auto ready = co_await be_ready(request.kind, request.abandoned); !ready)
    co_return tl::unexpected<Error>(ready.error());
  request.directory = normal_directory(request.directory);
  auto process = co_await attempt(request, wire::SpawnKind::program);
  if (!process) co_return process;
  const bool makeable = request.directory == "/workspace" || request.directory.starts_with("/workspace/");
  if ((*process)->failure_ && (*process)->failure_->stage == wire::SpawnStage::directory) {
    if (makeable && (*process)->failure_->sys_errno == ENOENT && link_) {
      ProcessRequest maker{.kind = ProcessKind::internal, .argv = {request.directory}, .directory = "/"};
      auto made = co_await attempt(std::move(maker), wire::SpawnKind::make_directory);
      if (!made) co_return made;
      while (!(*made)->end_ && !(*made)->failure_) co_await (*made)->changed().wait();
      if (link_) forget(*made);
      if (state_ != State::running || !link_) co_return not_there();
      if (const auto& refused = (*made)->failure_) {
        (*process)->failure_ = refused;
      } else {
        process = co_await attempt(request, wire::SpawnKind::program);
        if (!process) co_return process;
      }
    }
    if ((*process)->failure_ && (*process)->failure_->stage == wire::SpawnStage::directory) {
      const int why = (*process)->failure_->sys_errno;
      if (why == ENOENT) co_return fail(Errc::invalid, fmt::format("workdir does not exist: {}", request.directory));
      co_return fail(Errc::invalid,
                     fmt::format("workdir cannot be used: {}: {}", request.directory, std::strerror(why)));
    }
  }
  if ((*process)->failure_) explain_failure(**process, request.argv.front());
  co_return process;
}

void Sandbox::explain_failure(Process& failed, const std::string& name) {
  // It never ran: said in the words and the status a shell would use.
  const auto& failure = failed.failure_;
  ProcessEnd end{.reason = Reason::not_started, .exit_status = 126, .wall = failed.age()};
  if (failure->stage == wire::SpawnStage::program && (failure->sys_errno == ENOENT || failure->sys_errno == ENOTDIR)) {
    end.exit_status = 127;
    end.note = fmt::format("Command not found: {}", name);
  } else if (failure->stage == wire::SpawnStage::fork && failure->sys_errno == EAGAIN) {
    end.reason = Reason::pids;
    end.note = fmt::format("Cannot start {}: the sandbox's process limit is reached", name);
  } else {
    end.note = fmt::format("Cannot execute {}: {}", name, std::strerror(failure->sys_errno));
  }
  failed.next_ = 1;
  failed.push({.sequence = failed.next_++, .kind = Event::Kind::err, .bytes = end.note + "\n"});
  failed.finish(std::move(end));
  surroundings_.tasks.spawn("count a refusal", count_again());
}

// Readers that stopped reading are left behind in time.
void Sandbox::tick() {
  for (const auto& [number, process] : processes_) {
    if (!process->readers_.empty()) process->acknowledge();
  }
}

}  // namespace cove::sandbox
