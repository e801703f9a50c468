#include "keeper/service.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/random.hpp"
#include "jail/jail.hpp"
#include "keeper/own_root.hpp"
#include "keeper/predecessor.hpp"
#include "keeper/zygote_groups.hpp"
#include "sys/landlock.hpp"
#include "sys/process.hpp"
#include "sys/record.hpp"
#include "wire/keeper_messages.hpp"

namespace cove::keeper {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kRemoveRetryMillis = 1;
constexpr int kNiceWithoutGroups = 5;  // so that the server keeps its share of the processor
constexpr std::uint64_t kZygoteDisk = 64U << 20;
constexpr std::chrono::seconds kNoBirths{60};  // into a sandbox after one that took too long
constexpr int kMemoryRecheckMillis = 2;
constexpr std::chrono::seconds kMemoryRecheckFor{2};

// What woke us, as epoll hands it back: a sandbox's number and which of its descriptors.
enum class Source : std::uint32_t { front, report, process, oom, zygotes };
struct Tag {
  std::uint32_t number;
  Source source;
};
std::uint64_t pack(Tag tag) {
  return (static_cast<std::uint64_t>(tag.number) << 32) | static_cast<std::uint32_t>(tag.source);
}
Tag unpack(std::uint64_t data) {
  return {.number = static_cast<std::uint32_t>(data >> 32), .source = static_cast<Source>(data & 0xffffffff)};
}

wire::GroupName to_group_name(std::string_view text) {
  wire::GroupName name;
  std::memcpy(name.text, text.data(), std::min(text.size(), sizeof name.text - 1));
  return name;
}

// "s-" and digits: a name of ours, and no path.
std::optional<std::string> from_group_name(const wire::GroupName& name) {
  const std::string text(name.text, ::strnlen(name.text, sizeof name.text));
  const bool ours = text.size() > 2 && text.starts_with("s-") && text.find_first_not_of("0123456789", 2) == text.npos;
  return ours ? std::optional(text) : std::nullopt;
}

struct Sandbox {
  SandboxId id;
  std::uint32_t root = 0;
  std::uint32_t uid = 0;
  std::uint32_t device_set = 0;
  std::optional<sys::Cgroup> cgroup;
  jail::Jailed process;
  jail::Locks locks;  // for those who enter later
  std::uint32_t create_serial = 0;
  std::uint32_t destroy_serial = 0;
  bool running = false;  // every lock is on
  bool ending = false;   // destroy was asked, or the creation failed
  bool frozen = false;
  Clock::time_point lease_until{};  // of a frozen one
  Clock::time_point no_births_before{};
  bool reaped = false;
  // v1 tells of an out-of-memory event before it counts the kill: look again until then.
  std::optional<Clock::time_point> recheck_memory_until;
  jail::Report failure;
};

class Service {
 public:
  explicit Service(ServiceOptions options) : options_(std::move(options)), zygotes_(options_.zygotes) {}
  int run();

 private:
  bool take_request();
  void handle(const wire::KeeperRequest& request, std::vector<UniqueFd> fds);
  Result<> create(const wire::KeeperRequest& request, UniqueFd control);
  Result<> birth(const wire::KeeperRequest& request, std::vector<UniqueFd> streams);
  void open_zygote_groups();
  void report_births();
  [[nodiscard]] Result<jail::Root> root_of(std::uint32_t number) const;
  [[nodiscard]] Result<jail::Plan> zygote_plan(std::uint32_t root) const;
  [[nodiscard]] jail::PlanInput plan_input(const wire::KeeperRequest& request, const Sandbox& sandbox,
                                           const jail::Root& root) const;
  Result<> adopt(const wire::KeeperRequest& request);
  void sweep();
  Sandbox& keep_watch(Sandbox sandbox);
  Result<std::uint32_t> take_uid();
  std::uint32_t take_device_set();
  Result<sys::Cgroup> take_cgroup();
  void make_spare_cgroup();
  void read_report(Sandbox& sandbox);
  void process_ended(Sandbox& sandbox);
  void check_memory();
  void end(Sandbox& sandbox);
  bool finish(Sandbox& sandbox);  // true when nothing of it is left
  void finish_ending();
  void stay_for_the_frozen();
  void watch(int fd, std::uint32_t events, Tag tag);
  void say(wire::KeeperReply reply, const Sandbox* sandbox);
  void refuse(const wire::KeeperRequest& request, const Error& error);
  Sandbox* find(const SandboxId& id);

  ServiceOptions options_;
  ZygoteGroups zygotes_;
  std::map<std::uint32_t, SandboxId> births_;  // on their way, by serial
  UniqueFd epoll_;
  int landlock_abi_ = sys::landlock_abi();
  std::map<std::uint32_t, Sandbox> sandboxes_;
  std::uint32_t next_number_ = 1;
  std::set<std::uint32_t> uids_;
  std::uint32_t next_uid_ = random_number<std::uint32_t>();
  std::optional<sys::Cgroup> spare_cgroup_;
  bool wants_spare_ = false;
  std::uint32_t next_cgroup_ = random_number<std::uint32_t>();  // never a name of the keeper before
  bool front_gone_ = false;
};

Sandbox* Service::find(const SandboxId& id) {
  for (auto& [number, sandbox] : sandboxes_) {
    if (sandbox.id == id) return &sandbox;
  }
  return nullptr;
}

void Service::watch(int fd, std::uint32_t events, Tag tag) {
  epoll_event event{.events = events, .data = {.u64 = pack(tag)}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void Service::say(wire::KeeperReply reply, const Sandbox* sandbox) {
  if (sandbox != nullptr) {
    reply.id = sandbox->id;
    reply.host_uid = static_cast<std::int32_t>(sandbox->uid);
    reply.init_pid = sandbox->process.pid;
    if (sandbox->cgroup) reply.group = to_group_name(sandbox->cgroup->name());
    // A newborn has used nothing worth the reading.
    if (sandbox->cgroup && reply.word != wire::KeeperWord::created) {
      const auto usage = sandbox->cgroup->usage();
      reply.cpu_usec = usage.cpu_usec;
      reply.memory_peak_bytes = usage.memory_peak_bytes;
      reply.oom_kills = usage.oom_kills;
      reply.pids_refused = usage.pids_refused;
      const auto contents = sandbox->cgroup->contents();
      reply.memory_bytes = contents.memory_bytes;
      reply.processes = contents.processes;
    }
  }
  if (!front_gone_ && ::send(options_.front.get(), &reply, sizeof reply, MSG_NOSIGNAL) < 0) front_gone_ = true;
}

void Service::refuse(const wire::KeeperRequest& request, const Error& error) {
  wire::KeeperReply reply{.word = wire::KeeperWord::failed, .serial = request.serial, .id = request.id};
  wire::set_error(reply, error);
  say(reply, nullptr);
}

// Ids are given out in turn, so that one is not used again soon, and never while a sandbox still has it.
Result<std::uint32_t> Service::take_uid() {
  if (options_.uid_count == 1) return options_.first_uid;
  for (std::uint32_t tried = 0; tried < options_.uid_count; ++tried) {
    const std::uint32_t uid = options_.first_uid + (next_uid_++ % options_.uid_count);
    if (uids_.insert(uid).second) return uid;
  }
  return fail(Errc::unavailable, fmt::format("all {} user ids are in use by sandboxes", options_.uid_count));
}

// One that no living sandbox has. When all are taken the first is shared: the nodes are the same, only a lock on one is
// then seen.
std::uint32_t Service::take_device_set() {
  std::set<std::uint32_t> taken;
  for (const auto& [number, sandbox] : sandboxes_) taken.insert(sandbox.device_set);
  for (std::uint32_t set = 0; set < options_.device_sets; ++set) {
    if (!taken.contains(set)) return set;
  }
  return 0;
}

Result<sys::Cgroup> Service::take_cgroup() {
  if (spare_cgroup_) {
    auto taken = std::move(*spare_cgroup_);
    spare_cgroup_.reset();
    return taken;
  }
  return sys::Cgroup::create(*options_.tree, fmt::format("s-{}", next_cgroup_++));
}

// An empty group is made ready while there is nothing else to do. Never one that was used.
void Service::make_spare_cgroup() {
  auto made = sys::Cgroup::create(*options_.tree, fmt::format("s-{}", next_cgroup_++));
  wants_spare_ = false;  // also when it failed: the next create tries again, and reports why not
  if (made) spare_cgroup_.emplace(std::move(*made));
}

Result<jail::Root> Service::root_of(std::uint32_t number) const {
  if (number == 0) return options_.host;
  return template_root(number, options_.host);
}

jail::PlanInput Service::plan_input(const wire::KeeperRequest& request, const Sandbox& sandbox,
                                    const jail::Root& root) const {
  const bool counted = options_.tree->limits_memory() && options_.tree->limits_pids();
  return {
      .root = root,
      .limits = {.memory_bytes = request.memory_bytes,
                 .disk_bytes = request.disk_bytes,
                 .inodes = request.inodes,
                 .pids = request.pids,
                 .cpu_millis = request.cpu_millis},
      .uid = sandbox.uid,
      .gid = sandbox.uid,
      .terminal = request.terminal == wire::SandboxTerminal::available ? jail::TerminalSupport::available
                                                                       : jail::TerminalSupport::none,
      // What is born into a sandbox is in a Landlock domain of its own, and init must be able to signal it.
      .signals =
          request.births == wire::SandboxBirths::possible ? sys::SignalScope::unscoped : sys::SignalScope::own_domain,
      .device_set = sandbox.device_set,
      .backstop = counted ? jail::LimitBackstop::cgroup : jail::LimitBackstop::rlimit,
      .nice = options_.tree->limits_cpu() ? 0 : kNiceWithoutGroups,
      .landlock_abi = landlock_abi_,
      .control_fd = -1,
  };
}

Result<> Service::birth(const wire::KeeperRequest& request, std::vector<UniqueFd> streams) {
  const auto* sandbox = find(request.id);
  if (sandbox == nullptr || sandbox->ending || !sandbox->running)
    return fail(Errc::not_found, "there is no sandbox of this id");
  if (streams.size() != zygote::kFirstGroupFd - zygote::kStdin) return fail(Errc::invalid, "a stream is missing");
  // The zygote's stand-in would be frozen with it, and the zygote would wait. The front asks for none in a sandbox that
  // is paused, but may not know yet that it is.
  if (sandbox->frozen) return fail(Errc::unavailable, "the sandbox is frozen");
  // One zygote serves everybody: who has once kept it waiting, by having no processor time to spare, say, starts cold.
  if (Clock::now() < sandbox->no_births_before)
    return fail(Errc::unavailable, "births into this sandbox take too long");
  COVE_CHECK(zygotes_.ask({.root = sandbox->root, .number = request.zygote},
                          {.serial = request.serial,
                           .init_pidfd = sandbox->process.pidfd.get(),
                           .locks = sandbox->locks,
                           .cgroup = sandbox->cgroup ? &*sandbox->cgroup : nullptr,
                           .streams = std::move(streams)}));
  births_.emplace(request.serial, request.id);
  return {};
}

void Service::open_zygote_groups() {
  if (options_.zygotes.births == 0) return;
  zygotes_.open([this](std::uint32_t root) { return zygote_plan(root); });
  watch(zygotes_.fd(), EPOLLIN, {.number = 0, .source = Source::zygotes});
}

Result<jail::Plan> Service::zygote_plan(std::uint32_t number) const {
  const wire::KeeperRequest request{.disk_bytes = kZygoteDisk, .inodes = 4096, .pids = 1, .cpu_millis = 1};
  COVE_TRY(const auto root, root_of(number));
  return jail::make_plan(plan_input(request, {}, root), nullptr);
}

void Service::report_births() {
  for (const auto& done : zygotes_.turn()) {
    const auto found = births_.extract(done.serial);
    if (found.empty()) continue;
    if (auto* sandbox = done.slow ? find(found.mapped()) : nullptr)
      sandbox->no_births_before = Clock::now() + kNoBirths;
    wire::KeeperReply reply{.word = wire::KeeperWord::born, .serial = done.serial, .id = found.mapped()};
    if (done.born && done.born->pid > 0) {
      reply.born_pid = done.born->pid;
    } else {
      reply.word = wire::KeeperWord::failed;
      const Result<> failed =
          done.born ? fail_errno(done.born->failure.sys_errno, "{}", jail::words_for(done.born->failure.stage))
                    : tl::unexpected<Error>(done.born.error());
      wire::set_error(reply, failed.error());
    }
    say(reply, nullptr);
  }
}

Result<> Service::create(const wire::KeeperRequest& request, UniqueFd control) {
  if (!request.id.valid()) return fail(Errc::invalid, "the sandbox id is malformed");
  if (find(request.id) != nullptr) return fail(Errc::exists, "a sandbox of this id exists");
  if (!control) return fail(Errc::invalid, "no control socket came with the request");
  COVE_TRY(const auto root, root_of(request.root));
  if (request.memory_bytes == 0 || request.disk_bytes == 0 || request.inodes == 0 || request.pids == 0 ||
      request.cpu_millis == 0) {
    return fail(Errc::invalid, "a limit is zero");
  }

  Sandbox sandbox;
  sandbox.id = request.id;
  sandbox.root = request.root;
  sandbox.create_serial = request.serial;
  if (options_.tree->mode() != sys::CgroupMode::none) {
    COVE_TRY(auto cgroup, take_cgroup());
    sandbox.cgroup.emplace(std::move(cgroup));
    COVE_CHECK(sandbox.cgroup->limit(
        *options_.tree,
        {.memory_bytes = request.memory_bytes, .pids = request.pids, .cpu_millis = request.cpu_millis}));
  }
  COVE_TRY(sandbox.uid, take_uid());
  sandbox.device_set = take_device_set();
  auto input = plan_input(request, sandbox, root);
  input.control_fd = control.get();
  const auto plan = jail::make_plan(input, sandbox.cgroup ? &*sandbox.cgroup : nullptr);
  auto started = jail::start(plan);
  if (!started) {
    uids_.erase(sandbox.uid);
    return tl::unexpected<Error>(started.error());
  }
  sandbox.process = std::move(*started);
  sandbox.locks = plan.locks;
  if (sandbox.cgroup) sandbox.cgroup->forget_join_fds();

  wants_spare_ = options_.tree->mode() != sys::CgroupMode::none;
  keep_watch(std::move(sandbox));
  return {};
}

Sandbox& Service::keep_watch(Sandbox sandbox) {
  const auto number = next_number_++;
  auto& kept = sandboxes_.emplace(number, std::move(sandbox)).first->second;
  if (kept.process.report) watch(kept.process.report.get(), EPOLLIN, {.number = number, .source = Source::report});
  if (kept.process.pidfd) watch(kept.process.pidfd.get(), EPOLLIN, {.number = number, .source = Source::process});
  if (kept.cgroup && kept.cgroup->oom_fd() >= 0)
    watch(kept.cgroup->oom_fd(), EPOLLIN | EPOLLPRI | EPOLLET, {.number = number, .source = Source::oom});
  return kept;
}

// The front tells where the sandbox was; the kernel tells whether that is one of ours. A front that lies gets power
// over nothing that it had not already.
Result<> Service::adopt(const wire::KeeperRequest& request) {
  if (!request.id.valid()) return fail(Errc::invalid, "the sandbox id is malformed");
  if (find(request.id) != nullptr) return fail(Errc::exists, "a sandbox of this id exists");
  Sandbox sandbox;
  sandbox.id = request.id;
  sandbox.root = request.root;
  sandbox.create_serial = request.serial;
  sandbox.running = true;
  sandbox.process.pid = request.init_pid;
  const auto known = [&](const auto& entry) { return entry.second.process.pid == request.init_pid; };
  if (std::ranges::any_of(sandboxes_, known)) return fail(Errc::exists, "this init is another sandbox's");
  sandbox.process.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, request.init_pid, 0)));
  if (!sandbox.process.pidfd) return fail_errno(errno, "find the sandbox's init");
  const auto uid = user_of(request.init_pid);
  if (!uid || !is_our_init(request.init_pid)) return fail(Errc::not_found, "the sandbox's init is gone");
  sandbox.uid = *uid;
  if (options_.tree->mode() != sys::CgroupMode::none) {
    const auto group = from_group_name(request.group);
    if (!group) return fail(Errc::invalid, "the control group's name is malformed");
    COVE_TRY(auto cgroup, sys::Cgroup::adopt(*options_.tree, *group));
    sandbox.cgroup.emplace(std::move(cgroup));
  }
  uids_.insert(sandbox.uid);
  sandbox.locks = jail::make_locks(plan_input(request, sandbox, options_.host));  // the same in every root
  const auto& kept = keep_watch(std::move(sandbox));
  say({.word = wire::KeeperWord::created, .serial = request.serial}, &kept);
  return {};
}

void Service::sweep() {
  std::set<std::string> known;
  std::set<pid_t> known_inits;
  if (spare_cgroup_) known.insert(spare_cgroup_->name());
  for (const auto& [number, sandbox] : sandboxes_) {
    if (sandbox.cgroup) known.insert(sandbox.cgroup->name());
    known_inits.insert(sandbox.process.pid);
  }
  // By their inits, as there may be no groups; and until its init is gone a stray has its user id.
  for (const auto pid : our_inits()) {
    if (known_inits.contains(pid)) continue;
    Sandbox sandbox;
    sandbox.process.pid = pid;
    sandbox.process.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    // Looked at again with the handle in hand: the number may have become somebody else's.
    const auto uid = user_of(pid);
    if (!sandbox.process.pidfd || !is_our_init(pid) || !uid) continue;
    sandbox.uid = *uid;
    sandbox.running = true;
    uids_.insert(sandbox.uid);
    end(keep_watch(std::move(sandbox)));
  }
  for (auto& name : options_.tree->leaves()) {
    if (known.contains(name)) continue;
    auto stray = sys::Cgroup::adopt(*options_.tree, std::move(name));
    if (!stray) continue;
    // As a sandbox that is ending: finish() sees to it that nothing is left.
    Sandbox sandbox;
    sandbox.cgroup.emplace(std::move(*stray));
    sandbox.running = true;
    sandbox.reaped = true;
    end(keep_watch(std::move(sandbox)));
  }
}

void Service::handle(const wire::KeeperRequest& request, std::vector<UniqueFd> fds) {
  if (request.verb == wire::KeeperVerb::create) {
    UniqueFd control = fds.size() == 1 ? std::move(fds.front()) : UniqueFd();
    if (const auto created = create(request, std::move(control)); !created) refuse(request, created.error());
    return;
  }
  if (request.verb == wire::KeeperVerb::birth) {
    if (const auto asked = birth(request, std::move(fds)); !asked) refuse(request, asked.error());
    return;
  }
  if (request.verb == wire::KeeperVerb::adopt) {
    if (const auto adopted = adopt(request); !adopted) refuse(request, adopted.error());
    return;
  }
  if (request.verb == wire::KeeperVerb::sweep) {
    sweep();
    say({.word = wire::KeeperWord::done, .serial = request.serial}, nullptr);
    return;
  }
  if (request.verb == wire::KeeperVerb::retire_template) {
    if (request.root != 0) zygotes_.retire(request.root);
    say({.word = wire::KeeperWord::done, .serial = request.serial}, nullptr);
    return;
  }
  auto* sandbox = find(request.id);
  if (sandbox == nullptr) {
    refuse(request, {.code = Errc::not_found, .message = "there is no sandbox of this id"});
    return;
  }
  Result<> done;
  switch (request.verb) {
    case wire::KeeperVerb::destroy:
      sandbox->destroy_serial = request.serial;
      end(*sandbox);
      return;
    case wire::KeeperVerb::pause:
      done = sandbox->cgroup ? sandbox->cgroup->freeze()
                             : fail(Errc::unsupported, "there is no control group that can freeze");
      sandbox->frozen = done.has_value();
      sandbox->lease_until = Clock::now() + std::chrono::milliseconds(request.lease_millis);
      break;
    case wire::KeeperVerb::resume:
      done = sandbox->cgroup ? sandbox->cgroup->thaw()
                             : fail(Errc::unsupported, "there is no control group that can freeze");
      sandbox->frozen = sandbox->frozen && !done;
      break;
    case wire::KeeperVerb::inspect:
      break;
    default:
      done = fail(Errc::invalid, "unknown request");
  }
  if (!done) {
    refuse(request, done.error());
    return;
  }
  say({.word = wire::KeeperWord::done, .serial = request.serial}, sandbox);
}

bool Service::take_request() {
  wire::KeeperRequest request;
  std::vector<UniqueFd> fds;
  const auto n = sys::receive_record(options_.front.get(), std::as_writable_bytes(std::span(&request, 1)), fds);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n <= 0) {
    front_gone_ = true;
    return false;
  }
  if (static_cast<std::size_t>(n) == sizeof request) handle(request, std::move(fds));
  return true;
}

void Service::read_report(Sandbox& sandbox) {
  jail::Report report;
  const auto n = ::read(sandbox.process.report.get(), &report, sizeof report);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, sandbox.process.report.get(), nullptr);
  sandbox.process.report.reset();
  if (n == 0) {
    sandbox.running = true;
    say({.word = wire::KeeperWord::created, .serial = sandbox.create_serial}, &sandbox);
    return;
  }
  sandbox.failure =
      n == static_cast<ssize_t>(sizeof report) ? report : jail::Report{.stage = jail::Stage::none, .sys_errno = EIO};
  end(sandbox);
}

void Service::process_ended(Sandbox& sandbox) {
  siginfo_t info{};
  ::waitid(P_PIDFD, static_cast<id_t>(sandbox.process.pidfd.get()), &info, WEXITED);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, sandbox.process.pidfd.get(), nullptr);
  sandbox.reaped = true;
  if (!sandbox.ending && sandbox.running) say({.word = wire::KeeperWord::died}, &sandbox);
}

void Service::check_memory() {
  for (auto& [number, sandbox] : sandboxes_) {
    if (!sandbox.recheck_memory_until) continue;
    const bool killed = sandbox.cgroup && sandbox.cgroup->consume_oom_event();
    if (killed) say({.word = wire::KeeperWord::out_of_memory}, &sandbox);
    if (killed || !sandbox.cgroup || Clock::now() > *sandbox.recheck_memory_until) sandbox.recheck_memory_until.reset();
  }
}

void Service::end(Sandbox& sandbox) {
  sandbox.ending = true;
  // The pid namespace dies with its init; the group also holds whoever entered the sandbox from outside.
  if (!sandbox.reaped) sys::kill_process(sandbox.process.pidfd.get());
  if (sandbox.cgroup && !(sandbox.reaped && sandbox.cgroup->empty())) {
    [[maybe_unused]] const auto killed = sandbox.cgroup->kill_all();  // finish() asks the kernel whether it worked
    sandbox.cgroup->lift_cpu_limit();
  }
}

bool Service::finish(Sandbox& sandbox) {
  if (!sandbox.reaped) return false;
  wire::KeeperReply reply{.word = wire::KeeperWord::gone, .serial = sandbox.destroy_serial};
  if (!sandbox.running) {
    reply.word = wire::KeeperWord::failed;
    reply.serial = sandbox.create_serial;
    const auto words = jail::words_for(sandbox.failure.stage);
    wire::set_error(reply, fail_errno(sandbox.failure.sys_errno, "could not {}", words).value());
  }
  if (sandbox.cgroup) {
    const auto usage = sandbox.cgroup->usage();
    if (const auto removed = sandbox.cgroup->remove(); !removed && removed.error().code == Errc::unavailable) {
      [[maybe_unused]] const auto killed = sandbox.cgroup->kill_all();
      return false;
    }
    sandbox.cgroup.reset();
    reply.cpu_usec = usage.cpu_usec;
    reply.memory_peak_bytes = usage.memory_peak_bytes;
    reply.oom_kills = usage.oom_kills;
    reply.pids_refused = usage.pids_refused;
  }
  uids_.erase(sandbox.uid);
  if (sandbox.destroy_serial != 0 || !sandbox.running) say(reply, &sandbox);
  return true;
}

void Service::finish_ending() {
  for (auto it = sandboxes_.begin(); it != sandboxes_.end();) {
    it = it->second.ending && finish(it->second) ? sandboxes_.erase(it) : std::next(it);
  }
}

// Sandboxes live on without a keeper, and end by themselves when their time is over; one that is frozen cannot. The
// next keeper ends this one and takes over (predecessor.hpp).
void Service::stay_for_the_frozen() {
  for (auto it = sandboxes_.begin(); it != sandboxes_.end();) {
    auto& sandbox = it->second;
    const bool stays = sandbox.frozen && !sandbox.reaped;
    if (!stays && sandbox.cgroup) sandbox.cgroup->abandon();
    it = stays ? std::next(it) : sandboxes_.erase(it);
  }
  if (sandboxes_.empty()) return;
  [[maybe_unused]] const auto told = ::write(options_.lingers.get(), "+", 1);
  options_.lingers.reset();
  options_.front.reset();
  while (!sandboxes_.empty()) {
    auto next = Clock::now() + std::chrono::hours(1);
    for (auto& [number, sandbox] : sandboxes_) {
      if (!sandbox.ending && Clock::now() >= sandbox.lease_until) end(sandbox);
      if (!sandbox.ending) next = std::min(next, sandbox.lease_until);
    }
    const bool ending = std::ranges::any_of(sandboxes_, [](const auto& entry) { return entry.second.ending; });
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    std::array<epoll_event, 64> events;
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   ending ? kRemoveRetryMillis : static_cast<int>(std::max<std::int64_t>(0, wait)));
    for (int i = 0; i < count; ++i) {
      const auto tag = unpack(events[static_cast<std::size_t>(i)].data.u64);
      const auto found = sandboxes_.find(tag.number);
      if (tag.source == Source::process && found != sandboxes_.end() && !found->second.reaped) {
        process_ended(found->second);
        end(found->second);
      }
    }
    finish_ending();
  }
}

int Service::run() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  watch(options_.front.get(), EPOLLIN, {.number = 0, .source = Source::front});
  open_zygote_groups();
  while (!front_gone_ || !sandboxes_.empty()) {
    bool waiting = false;     // for a group that still empties
    bool rechecking = false;  // for a kill that is not counted yet
    for (const auto& [number, sandbox] : sandboxes_) {
      waiting = waiting || (sandbox.ending && sandbox.reaped);
      rechecking = rechecking || sandbox.recheck_memory_until;
    }
    std::array<epoll_event, 64> events;
    int timeout = waiting ? kRemoveRetryMillis : wants_spare_ ? 0 : rechecking ? kMemoryRecheckMillis : -1;
    if (const int due = zygotes_.wait_millis(); due >= 0) timeout = timeout < 0 ? due : std::min(timeout, due);
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
    if (count == 0 && wants_spare_ && !front_gone_) make_spare_cgroup();
    for (int i = 0; i < count; ++i) {
      const auto tag = unpack(events[static_cast<std::size_t>(i)].data.u64);
      if (tag.source == Source::front) {
        while (take_request()) {
        }
        continue;
      }
      if (tag.source == Source::zygotes) continue;
      const auto found = sandboxes_.find(tag.number);
      if (found == sandboxes_.end()) continue;
      auto& sandbox = found->second;
      if (tag.source == Source::report && sandbox.process.report) read_report(sandbox);
      if (tag.source == Source::process && !sandbox.reaped) process_ended(sandbox);
      if (tag.source == Source::oom) sandbox.recheck_memory_until = Clock::now() + kMemoryRecheckFor;
    }
    report_births();
    check_memory();
    if (front_gone_ && options_.keep) {
      zygotes_.close();
      spare_cgroup_.reset();
      stay_for_the_frozen();
      return 0;
    }
    if (front_gone_ && options_.front) {
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, options_.front.get(), nullptr);
      options_.front.reset();
      wants_spare_ = false;
      spare_cgroup_.reset();
      zygotes_.close();
      for (auto& [number, sandbox] : sandboxes_) end(sandbox);
    }
    finish_ending();
  }
  return 0;
}

}  // namespace

int serve(ServiceOptions options) {
  // Left to the end of the process, as its destructors would end every sandbox that is to be kept.
  auto* service = new Service(std::move(options));
  return service->run();
}

}  // namespace cove::keeper
