#include "sandbox/process_table.hpp"

#include <signal.h>

#include <boost/json.hpp>

#include "base/clock.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
namespace json = boost::json;

constexpr std::ptrdiff_t kMaxRunning = 64;  // in one sandbox, besides what processes start themselves
constexpr std::size_t kMaxFinished = 64;    // ended processes a sandbox remembers
constexpr std::size_t kMaxHeld = 4U << 20;  // bytes of events of one sandbox in the server's memory
constexpr milliseconds kReleaseGrace{5000};
constexpr milliseconds kOrphanGrace{2000};

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

// Those that a server after us is to find again.
bool is_stored(const ProcessRequest& request) {
  return request.kind == ProcessKind::background || request.kind == ProcessKind::kernel ||
         request.kind == ProcessKind::execution;
}

std::string_view name_of(ProcessKind kind) {
  return kind == ProcessKind::kernel ? "kernel" : kind == ProcessKind::execution ? "execution" : "background";
}

ProcessKind kind_of(std::string_view name) {
  return name == "background"  ? ProcessKind::background
         : name == "kernel"    ? ProcessKind::kernel
         : name == "execution" ? ProcessKind::execution
                               : ProcessKind::exec;
}

std::vector<std::string> texts_of(const std::string& array_json) {
  std::vector<std::string> texts;
  boost::system::error_code failed;
  const auto array = json::parse(array_json, failed);
  if (failed || !array.is_array()) return texts;
  for (const auto& text : array.as_array()) {
    if (text.is_string()) texts.emplace_back(text.as_string());
  }
  return texts;
}

ProcessRequest request_of(const store::ProcessRow& row) {
  ProcessRequest request{.kind = kind_of(row.kind)};
  request.tag = {.owner = row.owner,
                 .language = row.language,
                 .birth = row.birth == "warm" ? Birth::warm : Birth::cold,
                 .variables = texts_of(row.variables_json)};
  if (request.kind == ProcessKind::kernel) {
    request.channel = true;
    request.delivery = Delivery::everything;
  }
  request.argv = texts_of(row.command_json);
  request.terminal = row.terminal;
  request.input = row.input_open ? InputMode::open : InputMode::none;
  return request;
}

}  // namespace

ProcessTable::ProcessTable(SandboxContext& context, const SandboxRecord& record, InitSession& session,
                           const ResourceCounters& counters)
    : context_(context),
      record_(record),
      session_(session),
      counters_(counters),
      next_number_(record.row.next_process) {}

ProcessTable::~ProcessTable() {
  for (const auto& [number, process] : processes_) process->detach();
}

std::shared_ptr<Process> ProcessTable::insert(std::uint32_t number, ProcessRequest request) {
  const auto process = std::make_shared<Process>(context_.executor, *this, number, std::move(request));
  process->rebase_counters();
  processes_.emplace(number, process);
  return process;
}

Result<std::shared_ptr<Process>> ProcessTable::add(ProcessRequest request) {
  const auto number = next_number_++;
  COVE_CHECK(write_row(number, request));
  // Kept for as long as it may be listed: only what shows which it is.
  shorten(request.argv);
  request.variables.clear();
  request.files.clear();
  return insert(number, std::move(request));
}

Result<> ProcessTable::assign(Process& process, ProcessRequest request) {
  COVE_CHECK(write_row(process.number(), request));
  process.assign(std::move(request));
  return {};
}

guest::RunLimits ProcessTable::limits() const {
  const auto& row = record_.row;
  return {.memory_bytes = row.memory_bytes, .disk_bytes = row.disk_bytes, .inodes = row.inodes, .pids = row.pids};
}

Result<> ProcessTable::write_row(std::uint32_t number, const ProcessRequest& request) {
  if (!is_stored(request)) return {};
  auto shown = request.argv;
  shorten(shown);
  return context_.store.processes().insert(
      {.sandbox = record_.row.id,
       .number = number,
       .kind = std::string(name_of(request.kind)),
       .command_json = json_of(shown),
       .terminal = request.terminal,
       .input_open = request.input == InputMode::open,
       .started_unix_ms = unix_millis(),
       .deadline_boot_ms = request.timeout ? (boot_time() + *request.timeout).count() : 0,
       .owner = request.tag.owner,
       .language = request.tag.language,
       .birth = request.tag.birth == Birth::warm ? "warm" : "cold",
       .variables_json = json_of(request.tag.variables),
       .end = {}});
}

// A row that stays is erased after the next restart, when init does not report its process.
void ProcessTable::erase_row(std::uint32_t number) {
  [[maybe_unused]] const auto erased = context_.store.processes().erase(record_.row.id, number);
}

void ProcessTable::withdraw(const std::shared_ptr<Process>& process) {
  processes_.erase(process->number());
  process->detach();
  if (is_stored(process->request())) erase_row(process->number());
}

void ProcessTable::forget(const std::shared_ptr<Process>& process) {
  if (!process->finished()) process->stop(Reason::cancelled);
  if (processes_.erase(process->number()) == 0) return;
  stored_.erase(process->number());
  let_go(process->shared_bytes());
  process->detach();
  if (process->request().kind != ProcessKind::internal && record_.purpose == Purpose::named)
    erase_row(process->number());
  process->cancel(Reason::cancelled);
  if (auto* const link = session_.link()) link->forget(process->number());
  session_.flush();
}

void ProcessTable::release(const std::shared_ptr<Process>& process) {
  if (process->finished() || !process->attached())
    forget(process);
  else
    process->release(kReleaseGrace);
}

std::shared_ptr<Process> ProcessTable::find(std::uint32_t number) const {
  const auto found = processes_.find(number);
  return found == processes_.end() ? nullptr : found->second;
}

std::shared_ptr<Process> ProcessTable::find(ProcessKind kind, std::string_view owner) const {
  const auto found = std::ranges::find_if(processes_, [&](const auto& entry) {
    const auto& request = entry.second->request();
    return request.kind == kind && request.tag.owner == owner;
  });
  return found == processes_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Process>> ProcessTable::visible() const {
  std::vector<std::shared_ptr<Process>> out;
  for (const auto& [number, process] : processes_) {
    const auto kind = process->request().kind;
    if (kind == ProcessKind::exec || kind == ProcessKind::background) out.push_back(process);
  }
  return out;
}

std::vector<std::shared_ptr<Process>> ProcessTable::interpreters() const {
  std::vector<std::shared_ptr<Process>> out;
  for (const auto& [number, process] : processes_) {
    if (process->request().kind == ProcessKind::kernel && !process->finished()) out.push_back(process);
  }
  return out;
}

Result<> ProcessTable::check_background_quota() const {
  const auto others = visible();
  if (std::ranges::count_if(others, [](const auto& other) { return !other->end(); }) >= kMaxRunning)
    return fail(Errc::quota, fmt::format("the limit of {} running processes in this sandbox is reached: end one first",
                                         kMaxRunning));
  return {};
}

void ProcessTable::record_end(const Process& process) {
  if (process.request().kind == ProcessKind::internal || record_.state == State::deleting ||
      record_.purpose == Purpose::throwaway)
    return;
  const auto& end = *process.end();
  const store::ProcessEnd row{.ended_unix_ms = unix_millis(),
                              .reason = std::string(name_of(end.reason)),
                              .exit_code = end.exit_status,
                              .signal = end.signal,
                              .duration_ms = end.wall.count(),
                              .cpu_ms = end.cpu.count(),
                              .stdout_bytes = end.out_bytes,
                              .stderr_bytes = end.err_bytes,
                              .last_seq = process.last_sequence()};
  // If this fails, the next server derives the end from init's report; nothing is lost.
  [[maybe_unused]] const auto written = context_.store.processes().finish(record_.row.id, process.number(), row);
  prune_finished();
}

void ProcessTable::prune_finished() {
  std::size_t finished = 0;
  for (const auto& [number, process] : processes_) finished += process->finished() ? 1 : 0;
  for (auto it = processes_.begin(); it != processes_.end() && finished > kMaxFinished;) {
    const auto process = (it++)->second;
    if (!process->finished() || process->request().kind == ProcessKind::internal) continue;
    forget(process);
    --finished;
  }
}

// Whoever holds most gives up its oldest, so that of each process the newest stays.
void ProcessTable::hold(std::size_t bytes) {
  held_ += bytes;
  while (held_ > kMaxHeld) {
    Process* largest = nullptr;
    for (const auto& [number, process] : processes_) {
      if (!process->droppable()) continue;
      if (largest == nullptr || process->shared_bytes() > largest->shared_bytes()) largest = process.get();
    }
    if (largest == nullptr) return;
    largest->drop_oldest();
  }
}

Result<> ProcessTable::restore() {
  COVE_TRY(auto rows, context_.store.processes().of(record_.row.id));
  for (auto& row : rows) {
    next_number_ = std::max(next_number_, row.number + 1);
    auto request = request_of(row);
    request.entry = context_.journal.resume(record_.row.id, fmt::format("process {}", row.number));
    insert(row.number, std::move(request))->restore(row);
    stored_.emplace(row.number, std::move(row));
  }
  return {};
}

void ProcessTable::on_known(std::uint32_t number, const wire::Known& known) {
  next_number_ = std::max(next_number_, number + 1);
  reported_.insert(number);
  const auto process = find(number);
  const auto stored = stored_.extract(number);
  if (!process) return adopt_orphan(number, known);
  if (!stored) return process->on_reconnected(known);
  process->on_inherited(known);
  const auto deadline = stored.mapped().deadline_boot_ms;
  if (deadline != 0 && known.state != wire::ProcessState::ended)
    process->limit_time(std::max(milliseconds(0), milliseconds(deadline) - boot_time()));
}

// A command whose client went with the server before us, or file work, which cleans up when it is asked to end.
void ProcessTable::adopt_orphan(std::uint32_t number, const wire::Known& known) {
  const auto process = insert(number, {.kind = ProcessKind::internal, .history = 0});
  process->on_inherited(known);
  session_.link()->signal(number, SIGTERM);
  session_.link()->end_input(number);
  process->release(kOrphanGrace);
}

void ProcessTable::on_synced() {
  // What was being started when the connection broke never was.
  std::vector<std::shared_ptr<Process>> unknown;
  for (const auto& [number, process] : processes_) {
    if (!reported_.contains(number) && !process->finished() && number < first_of_connection_)
      unknown.push_back(process);
  }
  for (const auto& process : unknown) {
    process->cancel(Reason::sandbox_gone);
    forget(process);
  }
  // Those init does not know any more never started, or were forgotten.
  for (const auto& [number, row] : std::exchange(stored_, {})) erase_row(number);
}

void ProcessTable::on_disconnected() {
  reported_.clear();
  for (const auto& [number, process] : processes_) process->on_disconnected();
}

void ProcessTable::on_sandbox_gone() {
  stored_.clear();
  for (const auto& [number, process] : std::exchange(processes_, {})) process->on_sandbox_gone();
}

void ProcessTable::on_resumed() {
  for (const auto& [number, process] : processes_) {
    if (process->stopping()) process->allow_grace();
  }
}

void ProcessTable::on_tick() {
  for (const auto& [number, process] : processes_) process->on_tick();
}

}  // namespace cove::sandbox
