#include "sandbox/sandbox.hpp"

#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.hpp"
#include "base/log_fields.hpp"
#include "sandbox/poll_interval.hpp"
#include "sys/record.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kPersistStep{1000};
constexpr milliseconds kLeaseStep{30'000};
constexpr std::chrono::seconds kAnswerTime{30};  // for an init to report its processes

// What the kernel said to us about our own work is no fault of the caller's, and none of its business.
tl::unexpected<Error> ours(const Error& error, std::string_view what) {
  if (error.code == Errc::unavailable || error.code == Errc::unsupported) return tl::unexpected<Error>(error);
  return fail(Errc::io, std::string(what));
}

// A process that was left to itself is work that somebody wants done. A paused one does none, and a terminal is in use
// only while somebody is attached to it.
bool works(const SandboxRecord& record, const ProcessTable& processes) {
  const auto visible = processes.visible();
  return record.state == State::running && std::ranges::any_of(visible, [](const auto& process) {
           const auto& request = process->request();
           return request.kind == ProcessKind::background && !request.terminal && !process->end();
         });
}

}  // namespace

Sandbox::Sandbox(SandboxContext& context, store::SandboxRow row, Purpose purpose, Line line)
    : context_(context),
      record_{.row = std::move(row), .purpose = purpose, .line = line},
      changed_(context.executor),
      session_(
          std::make_shared<InitSession>(context.executor, context.tasks, context.run_dir, record_.row.id, handlers())),
      processes_(context, record_, *session_, counters_),
      births_(context, record_, *session_, processes_, changed_) {
  std::copy_n(record_.row.id.begin(), std::min(record_.row.id.size(), id_.text.size()), id_.text.begin());
  expires_boot_ = persisted_expiry_ = milliseconds(record_.row.expires_boot_ms);
}

Sandbox::~Sandbox() {
  session_->close();
}

void Sandbox::set_state(State state) {
  record_.state = state;
  changed_.notify_all();
}

void Sandbox::note(std::string_view words, std::string_view fields) const {
  context_.note(fmt::format("{} sandbox={} tenant={}{}{}", words,
                            record_.purpose == Purpose::throwaway ? "-" : log_value(record_.row.name),
                            log_value(record_.row.tenant), fields.empty() ? "" : " ", fields));
}

journal::Subject Sandbox::subject() const {
  return {.sandbox = record_.row.id, .name = record_.row.name, .tenant = record_.row.tenant};
}

std::shared_ptr<journal::Entry> Sandbox::begin_act(const journal::Actor& actor, journal::Act act) const {
  return actor.door.empty() ? nullptr : context_.journal.begin(subject(), actor, std::move(act));
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
  expires_boot_ = boot_time() + milliseconds(record_.row.ttl_ms);
  if (expires_boot_ - persisted_expiry_ >= kPersistStep) persist_expiry();
  if (expires_boot_ - leased_expiry_ >= kLeaseStep) send_lease();
}

milliseconds Sandbox::lease() const {
  return std::max(milliseconds(0), expires_boot_ - boot_time()) + context_.orphan_grace();
}

void Sandbox::send_lease() {
  leased_expiry_ = expires_boot_;
  if (!session_->connected()) return;
  session_->link()->lease(lease());
  session_->flush();
}

void Sandbox::set_ttl(milliseconds ttl) {
  if (!renewable()) return;
  record_.row.ttl_ms = ttl.count();
  expires_boot_ = boot_time() + ttl;
  persist_expiry();
  send_lease();
}

// What cannot be written now is written at the next touch; until a restart nobody reads it.
void Sandbox::persist_expiry() {
  if (record_.purpose == Purpose::throwaway) return;
  if (context_.store.sandboxes().set_expiry(record_.row.id, record_.row.ttl_ms, expires_boot_.count()))
    persisted_expiry_ = expires_boot_;
}

bool Sandbox::expired() const {
  return expiry_is_fixed() && boot_time() >= expires_boot_ && !(renewable() && works(record_, processes_));
}

std::int64_t Sandbox::expires_unix_ms() const {
  return unix_millis() + (expires_boot_ - boot_time()).count();
}

wire::KeeperRequest Sandbox::request(wire::KeeperVerb verb) const {
  wire::KeeperRequest request{.verb = verb, .id = id_};
  // One that a sandbox stands on is not deleted.
  if (const auto* from = context_.templates.find(record_.row.template_name)) request.root = from->number;
  request.memory_bytes = record_.row.memory_bytes;
  request.disk_bytes = record_.row.disk_bytes;
  request.inodes = record_.row.inodes;
  request.pids = record_.row.pids;
  request.cpu_millis = record_.row.cpu_millis;
  const auto raisable = context_.raisable();
  request.max_pids = raisable.pids;
  request.max_disk_bytes = raisable.disk_bytes;
  request.terminal = wire::SandboxTerminal::available;
  request.births = wire::SandboxBirths::possible;
  request.init_pid = static_cast<std::int32_t>(record_.row.init_pid);
  request.host_uid = record_.row.uid;
  std::copy_n(record_.row.cgroup.begin(), std::min(record_.row.cgroup.size(), sizeof request.group.text - 1),
              request.group.text);
  return request;
}

Result<UniqueFd> Sandbox::make_line() {
  if (record_.line == Line::once) return session_->connect_once(lease());
  COVE_TRY(auto listener, session_->listen());
  COVE_CHECK(connect());
  return listener;
}

async::Task<Result<>> Sandbox::create() {
  auto inits_end = make_line();
  if (!inits_end) co_return tl::unexpected<Error>(inits_end.error());
  const auto wanted = request(wire::KeeperVerb::create);
  auto made = co_await context_.keeper.ask(wanted, sys::descriptors(std::move(*inits_end)));
  if (!made) co_return tl::unexpected<Error>(made.error());
  record_.row.init_pid = made->init_pid;
  record_.row.uid = made->host_uid;
  record_.row.cgroup = std::string(made->group.text, ::strnlen(made->group.text, sizeof made->group.text));
  record_.row.state = "running";
  // The keeper saw the locks go on; that init lives is for init to say.
  co_await wait_until_synced();
  if (!session_->synced()) co_return fail(Errc::unavailable, "the sandbox's init did not start: try again");
  expires_boot_ = boot_time() + milliseconds(record_.row.ttl_ms);
  record_.row.expires_boot_ms = expires_boot_.count();
  send_lease();
  if (record_.purpose == Purpose::throwaway) co_return Result<>();
  co_return context_.store.sandboxes().update(record_.row);
}

async::Task<> Sandbox::wait_until_synced() {
  const auto until = Clock::now() + kAnswerTime;
  while (session_->connected() && !session_->synced() && Clock::now() < until)
    co_await changed_.wait_until(Clock::now() + kPollInterval);
}

async::Task<Result<>> Sandbox::adopt_into_keeper() {
  const auto wanted = request(wire::KeeperVerb::adopt);
  auto adopted = co_await context_.keeper.ask_directly(wanted);
  if (!adopted) co_return tl::unexpected<Error>(adopted.error());
  counters_ = {.oom_kills = adopted->oom_kills, .pids_refused = adopted->pids_refused};
  // Written before it was done: a crash between the two is made good here.
  const bool paused = record_.row.state == "paused";
  auto made_good = request(paused ? wire::KeeperVerb::pause : wire::KeeperVerb::resume);
  made_good.lease_millis = static_cast<std::uint64_t>(lease().count());
  auto done = co_await context_.keeper.ask_directly(made_good);
  if (!done && (paused || done.error().code == Errc::unavailable)) co_return tl::unexpected<Error>(done.error());
  co_return Result<>();
}

async::Task<Result<>> Sandbox::reconnect() {
  if (auto restored = processes_.restore(); !restored) co_return restored;
  record_.state = record_.row.state == "paused" ? State::paused : State::running;
  // A frozen init takes no connection, and its queue is short: resume() connects.
  if (record_.state == State::running) {
    if (auto connected = connect(); !connected) co_return connected;
  }
  changed_.notify_all();
  co_return Result<>();
}

bool Sandbox::answers() const {
  return record_.state == State::running && !births_.spare_died() && session_->alive();
}

async::Task<> Sandbox::discard() {
  const auto self = shared_from_this();
  if (record_.state == State::gone) co_return;
  set_state(State::deleting);
  co_await kill();
  co_await dismantle();
}

void Sandbox::take_identity(store::SandboxRow row, Purpose purpose) {
  row.id = record_.row.id;
  row.init_pid = record_.row.init_pid;
  row.uid = record_.row.uid;
  row.cgroup = record_.row.cgroup;
  row.memory_bytes = record_.row.memory_bytes;
  row.disk_bytes = record_.row.disk_bytes;
  row.pids = record_.row.pids;
  row.cpu_millis = record_.row.cpu_millis;
  row.next_process = processes_.next_number();
  row.state = "running";
  record_.row = std::move(row);
  record_.purpose = purpose;
  expires_boot_ = persisted_expiry_ = milliseconds(record_.row.expires_boot_ms);
  send_lease();
}

void Sandbox::tick() {
  processes_.on_tick();
  if (active_ > 0 || works(record_, processes_)) touch();  // also for a server that comes after us
}

async::Task<> Sandbox::insist(wire::KeeperVerb verb) {
  const auto wanted = request(verb);
  while (true) {
    const auto done = co_await context_.keeper.ask(wanted);
    // not_found: it never was, or the keeper before us ended it.
    if (done || done.error().code != Errc::unavailable) break;
  }
}

async::Task<> Sandbox::kill() {
  const auto self = shared_from_this();
  // Whoever waits for a process learns at once that it ended.
  on_init_gone();
  co_await insist(wire::KeeperVerb::kill);
  if (record_.line == Line::named) ::unlinkat(context_.run_dir, record_.row.id.c_str(), 0);
  set_state(State::gone);
}

async::Task<> Sandbox::dismantle() {
  const auto self = shared_from_this();
  co_await insist(wire::KeeperVerb::destroy);
}

async::Task<Result<wire::KeeperReply>> Sandbox::inspect() {
  const auto self = shared_from_this();
  const auto wanted = request(wire::KeeperVerb::inspect);
  auto counted = co_await context_.keeper.ask(wanted);
  if (counted) counters_.update(*counted);
  co_return counted;
}

async::Task<Result<>> Sandbox::set_limits(SandboxLimits limits) {
  const auto self = shared_from_this();
  if (record_.state != State::running && record_.state != State::paused) co_return not_found(record_);
  if (auto changed = co_await apply_limits(limits); !changed) co_return changed;
  if (record_.purpose == Purpose::throwaway) co_return Result<>();
  co_return context_.store.sandboxes().set_limits(record_.row);
}

async::Task<Result<>> Sandbox::apply_limits(SandboxLimits limits) {
  const auto self = shared_from_this();
  auto wanted = request(wire::KeeperVerb::relimit);
  wanted.memory_bytes = limits.memory_bytes;
  wanted.disk_bytes = limits.disk_bytes;
  wanted.pids = limits.pids;
  wanted.cpu_millis = limits.cpu_millis;
  auto changed = co_await context_.keeper.ask(wanted);
  const bool refused = !changed && changed.error().code == Errc::conflict;
  if (!changed && refused) co_return tl::unexpected<Error>(changed.error());
  if (!changed) co_return ours(changed.error(), "the limits of the sandbox could not be changed");
  record_.row.memory_bytes = limits.memory_bytes;
  record_.row.disk_bytes = limits.disk_bytes;
  record_.row.pids = limits.pids;
  record_.row.cpu_millis = limits.cpu_millis;
  co_return Result<>();
}

async::Task<Result<>> Sandbox::order_network(UniqueFd order, UniqueFd answer) {
  const auto self = shared_from_this();
  auto fds = sys::descriptors(std::move(order), std::move(answer));
  const auto asked = co_await context_.keeper.ask(request(wire::KeeperVerb::network), std::move(fds));
  if (!asked) co_return ours(asked.error(), "the network of the sandbox could not be changed");
  co_return Result<>();
}

async::Task<Result<>> Sandbox::pause() {
  const auto self = shared_from_this();
  if (record_.state == State::paused) co_return Result<>();
  // A pending birth would be frozen half-way, and block its zygote.
  while (births_.pending() > 0) co_await changed_.wait();
  if (record_.state != State::running) co_return not_found(record_);
  // Written first: a sandbox that is found frozen after a crash is then known to be paused.
  if (auto written = context_.store.sandboxes().set_state(record_.row.id, "paused"); !written) co_return written;
  auto wanted = request(wire::KeeperVerb::pause);
  wanted.lease_millis = static_cast<std::uint64_t>(lease().count());  // a frozen init cannot end itself
  auto paused = co_await context_.keeper.ask(wanted);
  if (record_.state == State::paused) co_return Result<>();  // by somebody who asked at the same time
  if (record_.state != State::running) co_return not_found(record_);
  if (!paused) {
    [[maybe_unused]] const auto undone = context_.store.sandboxes().set_state(record_.row.id, "running");
    // Half of it may have happened.
    const auto undo = request(wire::KeeperVerb::resume);
    [[maybe_unused]] const auto thawed = co_await context_.keeper.ask(undo);
    co_return ours(paused.error(), "the sandbox could not be paused");
  }
  record_.row.state = "paused";
  set_state(State::paused);
  co_return Result<>();
}

async::Task<Result<>> Sandbox::resume() {
  const auto self = shared_from_this();
  if (record_.state == State::running) co_return Result<>();
  if (record_.state != State::paused) co_return not_found(record_);
  const auto wanted = request(wire::KeeperVerb::resume);
  auto resumed = co_await context_.keeper.ask(wanted);
  if (record_.state == State::running) co_return Result<>();
  if (record_.state != State::paused) co_return not_found(record_);
  if (!resumed) co_return ours(resumed.error(), "the sandbox could not be resumed");
  if (auto written = context_.store.sandboxes().set_state(record_.row.id, "running"); !written) co_return written;
  record_.row.state = "running";
  if (!session_->connected()) {
    if (auto connected = connect(); !connected) co_return connected;
    co_await wait_until_synced();
    if (record_.state != State::paused) co_return not_found(record_);
    if (!session_->synced()) co_return fail(Errc::unavailable, "the sandbox does not answer");
  }
  set_state(State::running);
  processes_.on_resumed();
  co_return Result<>();
}

}  // namespace cove::sandbox
