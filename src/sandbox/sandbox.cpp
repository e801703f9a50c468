#include "sandbox/sandbox.hpp"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.hpp"
#include "sys/record.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPersistStep{1000};

// What the kernel said to us about our own work is no fault of the caller's, and none of its business.
tl::unexpected<Error> ours(const Error& error, std::string_view what) {
  if (error.code == Errc::unavailable || error.code == Errc::unsupported) return tl::unexpected<Error>(error);
  return fail(Errc::io, std::string(what));
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
  // One that a sandbox stands on is not deleted.
  if (const auto* from = surroundings_.templates.find(row_.template_name)) request.root = from->number;
  request.memory_bytes = row_.memory_bytes;
  request.disk_bytes = row_.disk_bytes;
  request.inodes = row_.inodes;
  request.pids = row_.pids;
  request.cpu_millis = row_.cpu_millis;
  request.terminal = wire::SandboxTerminal::available;
  request.births = wire::SandboxBirths::possible;
  request.init_pid = static_cast<std::int32_t>(row_.init_pid);
  request.host_uid = row_.uid;
  std::copy_n(row_.cgroup.begin(), std::min(row_.cgroup.size(), sizeof request.group.text - 1), request.group.text);
  return request;
}

async::Task<Result<>> Sandbox::create() {
  auto listener = listen_for_front();
  if (!listener) co_return tl::unexpected<Error>(listener.error());
  // The connection waits in the socket's queue until init comes to take it.
  if (auto connected = connect(); !connected) co_return connected;
  const auto wanted = request(wire::KeeperVerb::create);
  auto made = co_await surroundings_.keeper.ask(wanted, sys::descriptors(std::move(*listener)));
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
  // Known from what was written down until init has spoken.
  for (const auto& [number, row] : remembered_) restore(row);
  // A frozen init takes no connection, and its queue is short: it is called when it is resumed.
  if (state_ == State::running) {
    if (auto connected = connect(); !connected) co_return connected;
  }
  inherited_ = false;
  changed_.notify_all();
  co_return Result<>();
}

// That init has gone may be known to the kernel and not yet to us.
bool Sandbox::answers() const {
  if (!link_ || !synced_ || state_ != State::running || (spare_ && spare_->end())) return false;
  char byte = 0;
  return ::recv(link_->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
}

async::Task<> Sandbox::discard() {
  const auto self = shared_from_this();
  if (state_ == State::gone) co_return;
  set_state(State::deleting);
  co_await destroy();
}

void Sandbox::take_identity(store::SandboxRow row, Purpose purpose) {
  row.id = row_.id;
  row.init_pid = row_.init_pid;
  row.uid = row_.uid;
  row.cgroup = row_.cgroup;
  row.next_process = row_.next_process;
  row.state = "running";
  row_ = std::move(row);
  purpose_ = purpose;
  expires_boot_ = persisted_expiry_ = milliseconds(row_.expires_boot_ms);
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
  // What is on its way in would be frozen half-way, and whoever sends it with it.
  while (births_ > 0) co_await changed_.wait();
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

}  // namespace cove::sandbox
