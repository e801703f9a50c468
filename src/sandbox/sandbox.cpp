#include "sandbox/sandbox.hpp"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/json.hpp>

#include "base/clock.hpp"
#include "sandbox/environment.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
namespace json = boost::json;

constexpr std::size_t kFinishedKept = 64;  // ended processes a sandbox remembers
constexpr milliseconds kPersistStep{1000};
constexpr milliseconds kReleaseGrace{5000};
constexpr milliseconds kLookAgain{250};
constexpr milliseconds kOrphanGrace{2000};
constexpr milliseconds kBirthTime{30'000};    // for a process without a time limit to be started
constexpr std::size_t kHeldMost = 4U << 20;   // bytes of events of one sandbox in the server's memory
constexpr std::size_t kSpawnMost = 2U << 20;  // what the kernel takes of arguments and environment, about

// A path that is never too long for a socket, whatever the state directory is.
Result<sockaddr_un> address_in(int directory, std::string_view name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const auto path = fmt::format("/proc/self/fd/{}/{}", directory, name);
  if (path.size() >= sizeof address.sun_path) return fail(Errc::io, "the name of a control socket is too long");
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

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

// What the kernel said to us about our own work is no fault of the caller's, and none of its business.
tl::unexpected<Error> ours(const Error& error, std::string_view what) {
  if (error.code == Errc::unavailable || error.code == Errc::unsupported) return tl::unexpected<Error>(error);
  return fail(Errc::io, std::string(what));
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

}  // namespace

std::string_view name_of(State state) {
  switch (state) {
    case State::creating:
      return "creating";
    case State::running:
      return "running";
    case State::paused:
      return "paused";
    case State::deleting:
    case State::gone:
      return "deleting";
  }
  return "deleting";
}

Sandbox::Sandbox(Surroundings& surroundings, store::SandboxRow row, Purpose purpose)
    : surroundings_(surroundings), row_(std::move(row)), purpose_(purpose), changed_(surroundings.executor) {
  std::copy_n(row_.id.begin(), std::min(row_.id.size(), id_.text.size()), id_.text.begin());
  expires_boot_ = persisted_expiry_ = milliseconds(row_.expires_boot_ms);
}

// One that is going is as one that never was.
tl::unexpected<Error> Sandbox::not_there() const {
  return fail(Errc::not_found, fmt::format("sandbox not found: {}", row_.name));
}

void Sandbox::set_state(State state) {
  state_ = state;
  changed_.notify_all();
}

Sandbox::Activity::Activity(std::shared_ptr<Sandbox> sandbox) : sandbox_(std::move(sandbox)) {
  ++sandbox_->active_;
}

Sandbox::Activity::~Activity() {
  if (!sandbox_) return;
  --sandbox_->active_;
  sandbox_->touch();
}

void Sandbox::touch() {
  if (!renewable()) return;
  expires_boot_ = boot_time() + milliseconds(row_.ttl_ms);
  if (expires_boot_ - persisted_expiry_ >= kPersistStep) persist_expiry();
}

void Sandbox::set_ttl(milliseconds ttl) {
  if (!renewable()) return;
  row_.ttl_ms = ttl.count();
  expires_boot_ = boot_time() + ttl;
  persist_expiry();
}

// What cannot be written now is written at the next touch; until a restart nobody reads it.
void Sandbox::persist_expiry() {
  if (purpose_ == Purpose::throwaway) return;
  if (surroundings_.store.sandboxes().set_expiry(row_.id, row_.ttl_ms, expires_boot_.count()))
    persisted_expiry_ = expires_boot_;
}

bool Sandbox::expired() const {
  return (active_ == 0 || !renewable()) && boot_time() >= expires_boot_;
}

std::int64_t Sandbox::expires_unix_ms() const {
  return unix_millis() + (expires_boot_ - boot_time()).count();
}

wire::KeeperRequest Sandbox::request(wire::KeeperVerb verb) const {
  wire::KeeperRequest request{.verb = verb, .id = id_};
  request.memory_bytes = row_.memory_bytes;
  request.disk_bytes = row_.disk_bytes;
  request.inodes = row_.inodes;
  request.pids = row_.pids;
  request.cpu_millis = row_.cpu_millis;
  request.terminal = wire::SandboxTerminal::available;
  request.init_pid = static_cast<std::int32_t>(row_.init_pid);
  request.host_uid = row_.uid;
  std::copy_n(row_.cgroup.begin(), std::min(row_.cgroup.size(), sizeof request.group.text - 1), request.group.text);
  return request;
}

Result<UniqueFd> Sandbox::listen_for_front() {
  UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return fail_errno(errno, "make a control socket");
  COVE_TRY(const auto address, address_in(surroundings_.run_dir, row_.id));
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(errno, "bind a control socket");
  if (::listen(listener.get(), 4) != 0) return fail_errno(errno, "listen on a control socket");
  return listener;
}

Result<> Sandbox::connect() {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno(errno, "make a control connection");
  COVE_TRY(const auto address, address_in(surroundings_.run_dir, row_.id));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(errno, "connect to the sandbox's init");
  link_.emplace(std::move(socket));
  first_of_this_line_ = row_.next_process;
  readiness_ = std::make_shared<Readiness>(surroundings_.executor, link_->fd());
  surroundings_.tasks.spawn("hear an init", listen(shared_from_this(), readiness_));
  return {};
}

async::Task<Result<>> Sandbox::create() {
  auto listener = listen_for_front();
  if (!listener) co_return tl::unexpected<Error>(listener.error());
  // The connection waits in the socket's queue until init comes to take it.
  if (auto connected = connect(); !connected) co_return connected;
  const auto wanted = request(wire::KeeperVerb::create);
  auto made = co_await surroundings_.keeper.ask(wanted, std::move(*listener));
  if (!made) co_return tl::unexpected<Error>(made.error());
  row_.init_pid = made->init_pid;
  row_.uid = made->host_uid;
  row_.cgroup = std::string(made->group.text, ::strnlen(made->group.text, sizeof made->group.text));
  row_.state = "running";
  // The keeper saw the locks go on; that init lives is for init to say.
  const auto until = std::chrono::steady_clock::now() + kBirthTime;
  while (link_ && !synced_ && std::chrono::steady_clock::now() < until)
    co_await changed_.wait_until(std::chrono::steady_clock::now() + kLookAgain);
  if (!link_ || !synced_) co_return fail(Errc::unavailable, "the sandbox's init did not start: try again");
  expires_boot_ = boot_time() + milliseconds(row_.ttl_ms);
  row_.expires_boot_ms = expires_boot_.count();
  if (purpose_ == Purpose::throwaway) co_return Result<>();
  co_return surroundings_.store.sandboxes().update(row_);
}

async::Task<Result<>> Sandbox::adopt_into_keeper() {
  const auto wanted = request(wire::KeeperVerb::adopt);
  auto adopted = co_await surroundings_.keeper.ask_directly(wanted);
  if (!adopted) co_return tl::unexpected<Error>(adopted.error());
  oom_kills_ = adopted->oom_kills;
  pids_refused_ = adopted->pids_refused;
  // Written before it was done: a crash between the two is made good here.
  const bool paused = row_.state == "paused";
  const auto made_good = request(paused ? wire::KeeperVerb::pause : wire::KeeperVerb::resume);
  auto done = co_await surroundings_.keeper.ask_directly(made_good);
  if (!done && (paused || done.error().code == Errc::unavailable)) co_return tl::unexpected<Error>(done.error());
  co_return Result<>();
}

// To an init that served a front before us.
async::Task<Result<>> Sandbox::reconnect() {
  auto rows = surroundings_.store.processes().of(row_.id);
  if (!rows) co_return tl::unexpected<Error>(rows.error());
  for (auto& row : *rows) {
    row_.next_process = std::max(row_.next_process, row.number + 1);
    remembered_.emplace(row.number, std::move(row));
  }
  state_ = row_.state == "paused" ? State::paused : State::running;
  // A frozen init takes no connection, and its queue is short: it is called when it is resumed.
  if (state_ == State::running) {
    if (auto connected = connect(); !connected) co_return connected;
  } else {
    for (const auto& [number, row] : remembered_) restore(row);
  }
  inherited_ = false;
  changed_.notify_all();
  co_return Result<>();
}

async::Task<> Sandbox::destroy() {
  const auto self = shared_from_this();
  // Whoever waits for a process hears at once that there is none any more.
  on_link_lost();
  const auto wanted = request(wire::KeeperVerb::destroy);
  while (true) {
    const auto gone = co_await surroundings_.keeper.ask(wanted);
    // not_found: it never was, or the keeper before us ended it.
    if (gone || gone.error().code != Errc::unavailable) break;
  }
  ::unlinkat(surroundings_.run_dir, row_.id.c_str(), 0);
  set_state(State::gone);
}

void Sandbox::flush() {
  if (!link_) return;
  link_->flush();
  if (link_->broken()) {
    // Not from here: whoever called may be in the middle of using it.
    boost::asio::post(surroundings_.executor, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self && self->link_ && self->link_->broken()) self->on_link_closed();
    });
    return;
  }
  if (!link_->wants_write() || waiting_to_write_) return;
  waiting_to_write_ = true;
  readiness_->when_writable([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->waiting_to_write_ = false;
    self->flush();
  });
}

async::Task<> Sandbox::listen(std::shared_ptr<Sandbox> self, std::shared_ptr<Readiness> readiness) {
  while (readiness == self->readiness_ && co_await readiness->readable()) {
    if (readiness != self->readiness_) co_return;
    const auto state = self->link_->receive([&](const wire::Frame& frame) { self->handle(frame); });
    if (readiness != self->readiness_) co_return;
    if (state == InitLink::State::closed) {
      self->on_link_closed();
      co_return;
    }
    self->flush();
  }
}

void Sandbox::handle(const wire::Frame& frame) {
  if (frame.type == wire::FrameType::synced) {
    on_synced();
    return;
  }
  if (frame.type == wire::FrameType::known) {
    if (const auto known = wire::decode_known(frame.payload)) on_known(frame.process, *known);
    return;
  }
  const auto process = find_process(frame.process);
  if (!process) return;
  switch (frame.type) {
    case wire::FrameType::started:
      process->on_started();
      break;
    case wire::FrameType::spawn_failed:
      if (const auto failure = wire::decode_spawn_failed(frame.payload)) process->on_failed(*failure);
      break;
    case wire::FrameType::output:
      if (const auto output = wire::decode_output(frame.payload)) process->on_output(*output);
      break;
    case wire::FrameType::input_room:
      if (const auto taken = wire::decode_number(frame.payload)) process->on_input_room(*taken);
      break;
    case wire::FrameType::flood:
      process->on_flood();
      break;
    case wire::FrameType::exited:
      process->exited_ = wire::decode_exited(frame.payload);
      surroundings_.tasks.spawn("conclude a process", conclude(shared_from_this(), process));
      break;
    default:
      break;
  }
}

// A process that the front before us started, as far as it was written down.
std::shared_ptr<Process> Sandbox::restore(const store::ProcessRow& row) {
  ProcessRequest request{.kind = row.kind == "background" ? ProcessKind::background : ProcessKind::exec};
  boost::system::error_code failed;
  if (const auto command = json::parse(row.command_json, failed); !failed && command.is_array()) {
    for (const auto& word : command.as_array()) {
      if (word.is_string()) request.argv.emplace_back(word.as_string());
    }
  }
  request.terminal = row.terminal;
  request.input = row.input_open ? InputMode::open : InputMode::none;
  const auto process = std::make_shared<Process>(surroundings_.executor, *this, row.number, std::move(request));
  processes_.emplace(row.number, process);
  process->started_unix_ms_ = row.started_unix_ms;
  process->started_at_ = std::chrono::steady_clock::now() - milliseconds(unix_millis() - row.started_unix_ms);
  process->oom_kills_before_ = oom_kills_;
  process->pids_refused_before_ = pids_refused_;
  return process;
}

// Init tells of a process that a front before us started. What nobody waits for any more is ended.
void Sandbox::on_known(std::uint32_t number, const wire::Known& known) {
  row_.next_process = std::max(row_.next_process, number + 1);
  const auto found = remembered_.find(number);
  if (const auto process = find_process(number); process && found == remembered_.end()) {
    // The line broke and was made again: on from what had come.
    known_again_.insert(number);
    if (known.state != wire::ProcessState::starting) process->on_started();  // said over the line that broke
    process->acknowledged_[0] = process->acknowledged_[1] = 0;               // and so was this, perhaps
    link_->replay(number, process->next_);
    process->acknowledge();
    if (!process->input_open_ && process->request_.input == InputMode::open &&
        process->input_taken_ < process->input_sent_)
      process->stop(Reason::cancelled);
    return;
  }
  known_again_.insert(number);
  if (found == remembered_.end()) {
    // A command whose client went with the server, or file work: that cleans up if it is asked to.
    const auto process = std::make_shared<Process>(surroundings_.executor, *this, number,
                                                   ProcessRequest{.kind = ProcessKind::internal, .history = 0});
    processes_.emplace(number, process);
    process->on_known(known);
    link_->replay(number, known.first_sequence);
    link_->signal(number, SIGTERM);
    link_->end_input(number);
    process->released_ = true;
    process->arm(kOrphanGrace);
    return;
  }
  const auto& row = found->second;
  auto process = find_process(number);
  if (!process) process = restore(row);
  process->on_known(known);
  if (row.end) {
    process->judged_ = ProcessEnd{.reason = reason_of(row.end->reason),
                                  .exit_status = row.end->exit_code.value_or(0),
                                  .signal = row.end->signal.value_or(0),
                                  .wall = milliseconds(row.end->duration_ms),
                                  .cpu = milliseconds(row.end->cpu_ms),
                                  .out_bytes = row.end->stdout_bytes,
                                  .err_bytes = row.end->stderr_bytes};
  }
  if (row.deadline_boot_ms != 0 && known.state != wire::ProcessState::ended)
    process->arm(std::max(milliseconds(0), milliseconds(row.deadline_boot_ms) - boot_time()));
  link_->replay(number, known.first_sequence);
  remembered_.erase(found);
}

void Sandbox::on_synced() {
  synced_ = true;
  // What was being started when the line broke never was.
  std::vector<std::shared_ptr<Process>> unknown;
  for (const auto& [number, process] : processes_) {
    if (!known_again_.contains(number) && !process->end_ && process->number_ < first_of_this_line_)
      unknown.push_back(process);
  }
  for (const auto& process : unknown) {
    process->finish({.reason = Reason::sandbox_gone, .exit_status = 128 + SIGKILL, .wall = process->age()});
    forget(process);
  }
  // Those init does not know any more never started, or were forgotten.
  for (const auto& [number, row] : std::exchange(remembered_, {})) {
    [[maybe_unused]] const auto erased = surroundings_.store.processes().erase(row_.id, number);
  }
  changed_.notify_all();
}

// Init is gone, and then nobody listens; or the line broke, and then it is made again.
void Sandbox::on_link_closed() {
  readiness_->give_up();
  readiness_.reset();
  link_.reset();
  waiting_to_write_ = false;
  synced_ = false;
  known_again_.clear();
  // Input that was on its way may be lost: what comes of it would be wrong, so nothing may.
  for (const auto& [number, process] : processes_) {
    if (process->input_open_ && process->input_taken_ < process->input_sent_) process->input_open_ = false;
  }
  const bool alive = state_ == State::running || state_ == State::creating;
  if (!alive || !connect()) on_link_lost();
}

// Init is gone: nothing inside lives any more.
void Sandbox::on_link_lost() {
  if (readiness_) readiness_->give_up();
  readiness_.reset();
  link_.reset();
  for (const auto& [number, process] : std::exchange(processes_, {})) {
    process->sandbox_ = nullptr;
    if (process->end_) continue;
    const auto reason = process->stopped_by_us_.value_or(Reason::sandbox_gone);
    process->finish({.reason = reason,
                     .exit_status = reason == Reason::timeout ? 124 : 128 + SIGKILL,
                     .signal = SIGKILL,
                     .wall = process->age(),
                     .note = "the sandbox ended"});
  }
  changed_.notify_all();
}

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
  // A good end needs no explanation.
  if (process->request_.kind != ProcessKind::internal && (exited->exit_code != 0 || process->stopped_by_us_)) {
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
  process->finish(std::move(end));
  self->record_end(*process);
  if (process->released_) self->forget(process);
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

std::vector<std::shared_ptr<Process>> Sandbox::processes() const {
  std::vector<std::shared_ptr<Process>> out;
  for (const auto& [number, process] : processes_) {
    if (process->request_.kind != ProcessKind::internal) out.push_back(process);
  }
  return out;
}

void Sandbox::forget(const std::shared_ptr<Process>& process) {
  if (!process->end_) process->stop(Reason::cancelled);
  if (processes_.erase(process->number_) == 0) return;
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

async::Task<Result<wire::KeeperReply>> Sandbox::inspect() {
  const auto self = shared_from_this();
  const auto wanted = request(wire::KeeperVerb::inspect);
  auto counted = co_await surroundings_.keeper.ask(wanted);
  if (counted) count(*counted);
  co_return counted;
}

async::Task<Result<>> Sandbox::pause() {
  const auto self = shared_from_this();
  if (state_ == State::paused) co_return Result<>();
  if (state_ != State::running) co_return not_there();
  // Written first: a sandbox that is found frozen after a crash is then known to be paused.
  if (auto written = surroundings_.store.sandboxes().set_state(row_.id, "paused"); !written) co_return written;
  const auto wanted = request(wire::KeeperVerb::pause);
  auto paused = co_await surroundings_.keeper.ask(wanted);
  if (state_ == State::paused) co_return Result<>();  // by somebody who asked at the same time
  if (state_ != State::running) co_return not_there();
  if (!paused) {
    [[maybe_unused]] const auto undone = surroundings_.store.sandboxes().set_state(row_.id, "running");
    // Half of it may have happened.
    const auto undo = request(wire::KeeperVerb::resume);
    [[maybe_unused]] const auto thawed = co_await surroundings_.keeper.ask(undo);
    co_return ours(paused.error(), "the sandbox could not be paused");
  }
  row_.state = "paused";
  set_state(State::paused);
  co_return Result<>();
}

async::Task<Result<>> Sandbox::resume() {
  const auto self = shared_from_this();
  if (state_ == State::running) co_return Result<>();
  if (state_ != State::paused) co_return not_there();
  const auto wanted = request(wire::KeeperVerb::resume);
  auto resumed = co_await surroundings_.keeper.ask(wanted);
  if (state_ == State::running) co_return Result<>();
  if (state_ != State::paused) co_return not_there();
  if (!resumed) co_return ours(resumed.error(), "the sandbox could not be resumed");
  if (auto written = surroundings_.store.sandboxes().set_state(row_.id, "running"); !written) co_return written;
  row_.state = "running";
  if (!link_) {
    if (auto connected = connect(); !connected) co_return connected;
    const auto until = std::chrono::steady_clock::now() + kBirthTime;
    while (link_ && !synced_ && std::chrono::steady_clock::now() < until)
      co_await changed_.wait_until(std::chrono::steady_clock::now() + kLookAgain);
    if (state_ != State::paused) co_return not_there();
    if (!link_ || !synced_) co_return fail(Errc::unavailable, "the sandbox does not answer");
  }
  set_state(State::running);
  // What was told to die gets its whole time to: it could not before.
  for (const auto& [number, process] : processes_) {
    if (process->stopped_by_us_ && !process->end_) process->allow_grace();
  }
  co_return Result<>();
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
  spawn.environment = base_environment();
  if (request.terminal) set_variable(spawn.environment, "TERM=xterm-256color");
  boost::system::error_code failed;
  if (const auto own = json::parse(row_.env_json, failed); !failed && own.is_object()) {
    for (const auto& [name, value] : own.as_object()) {
      if (value.is_string())
        set_variable(spawn.environment,
                     fmt::format("{}={}", std::string_view(name), std::string_view(value.as_string())));
    }
  }
  for (const auto& variable : request.variables) set_variable(spawn.environment, variable);

  if (wire::encode(spawn).size() > kSpawnMost)
    co_return fail(Errc::invalid, "cmd and env are larger than 2 MiB together");

  const auto number = row_.next_process++;
  const bool recorded = request.kind == ProcessKind::background;
  if (recorded) {
    auto shown = request.argv;
    shorten(shown);
    store::ProcessRow row{.sandbox = row_.id,
                          .number = number,
                          .kind = "background",
                          .command_json = json_of(shown),
                          .terminal = request.terminal,
                          .input_open = request.input == InputMode::open,
                          .started_unix_ms = unix_millis(),
                          .deadline_boot_ms = request.timeout ? (boot_time() + *request.timeout).count() : 0};
    if (auto written = surroundings_.store.processes().insert(row); !written)
      co_return tl::unexpected<Error>(written.error());
  }
  const bool no_input = request.input == InputMode::none;
  const auto process = std::make_shared<Process>(surroundings_.executor, *this, number, std::move(request));
  process->oom_kills_before_ = oom_kills_;
  process->pids_refused_before_ = pids_refused_;
  processes_.emplace(number, process);
  // Kept for as long as it may be listed: a name to know it by is enough.
  shorten(process->request_.argv);
  process->request_.variables.clear();
  process->request_.files.clear();
  link_->spawn(number, spawn);
  if (no_input && spawn.terminal == wire::Terminal::no) link_->end_input(number);
  flush();
  // A sandbox that is paused, or has no processor time, may take for ever: its time limit counts from here.
  const auto until = std::chrono::steady_clock::now() + process->request_.timeout.value_or(kBirthTime);
  while (process->birth_ == Process::Birth::pending && !process->end_) {
    co_await process->changed().wait_until(std::chrono::steady_clock::now() + kLookAgain);
    if (process->birth_ != Process::Birth::pending || process->end_) break;
    const bool late = std::chrono::steady_clock::now() >= until;
    if (!late && !(process->request_.abandoned && process->request_.abandoned())) continue;
    process->finish({.reason = late ? Reason::timeout : Reason::cancelled, .exit_status = late ? 124 : 128 + SIGKILL});
    if (link_) link_->kill_tree(number);
    forget(process);
  }
  if (process->birth_ == Process::Birth::failed) {
    processes_.erase(number);
    process->sandbox_ = nullptr;
    if (recorded) [[maybe_unused]]
      const auto erased = surroundings_.store.processes().erase(row_.id, number);
  }
  co_return process;
}

async::Task<Result<std::shared_ptr<Process>>> Sandbox::start(ProcessRequest request) {
  const auto self = shared_from_this();
  // Numbers are given when init has told which are taken.
  const auto until = std::chrono::steady_clock::now() + kBirthTime;
  while (state_ == State::creating || (state_ == State::running && link_ && !synced_)) {
    if (std::chrono::steady_clock::now() > until) co_return fail(Errc::unavailable, "the sandbox does not answer");
    if (request.abandoned && request.abandoned()) co_return fail(Errc::unavailable, "nobody waits for it any more");
    co_await changed_.wait_until(std::chrono::steady_clock::now() + kLookAgain);
  }
  if (state_ == State::paused) co_return fail(Errc::conflict, "the sandbox is paused: resume it first");
  if (state_ != State::running || !link_) co_return not_there();
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
      process = co_await attempt(request, wire::SpawnKind::program);
      if (!process) co_return process;
    }
    if ((*process)->failure_ && (*process)->failure_->stage == wire::SpawnStage::directory) {
      const int why = (*process)->failure_->sys_errno;
      if (why == ENOENT) co_return fail(Errc::invalid, fmt::format("workdir does not exist: {}", request.directory));
      co_return fail(Errc::invalid,
                     fmt::format("workdir cannot be used: {}: {}", request.directory, std::strerror(why)));
    }
  }
  if (const auto& failure = (*process)->failure_) {
    // It never ran: said in the words and the status a shell would use.
    auto& failed = **process;
    const auto& name = request.argv.front();
    ProcessEnd end{.reason = Reason::not_started, .exit_status = 126, .wall = failed.age()};
    if (failure->stage == wire::SpawnStage::program &&
        (failure->sys_errno == ENOENT || failure->sys_errno == ENOTDIR)) {
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
  }
  co_return process;
}

// Readers that stopped reading are left behind in time.
void Sandbox::tick() {
  for (const auto& [number, process] : processes_) {
    if (!process->readers_.empty()) process->acknowledge();
  }
}

}  // namespace cove::sandbox
