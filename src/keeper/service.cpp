#include "keeper/service.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <utility>

#include "jail/jail.hpp"
#include "keeper/adoption.hpp"
#include "keeper/cgroup_pool.hpp"
#include "keeper/front_link.hpp"
#include "keeper/live_limits.hpp"
#include "keeper/network.hpp"
#include "keeper/plans.hpp"
#include "keeper/poller.hpp"
#include "keeper/sandbox_table.hpp"
#include "keeper/user_ids.hpp"
#include "keeper/zygote_groups.hpp"
#include "wire/keeper_messages.hpp"

namespace cove::keeper {
namespace {

using Clock = std::chrono::steady_clock;
using wire::KeeperWord;
constexpr int kRemoveRetryMillis = 1, kMemoryRecheckMillis = 2;
constexpr std::chrono::seconds kMemoryRecheckFor{2};
constexpr std::chrono::seconds kNoBirths{60};  // into a sandbox after a birth that timed out

class Service {
 public:
  explicit Service(ServiceOptions options) : options_(std::move(options)), front_(std::move(options_.front)) {}
  int run();

 private:
  // Requests.
  void handle(const wire::KeeperRequest& request, std::vector<UniqueFd> fds);
  Result<> create(const wire::KeeperRequest& request, UniqueFd control);
  Result<> birth(const wire::KeeperRequest& request, std::vector<UniqueFd> streams);
  Result<> adopt_sandbox(const wire::KeeperRequest& request);
  Result<> sweep();

  // Events.
  void handle(Poller::Event event);
  void read_report(Sandbox& sandbox);
  void process_ended(Sandbox& sandbox);
  void report_births();
  void check_memory();
  bool finish(Sandbox& sandbox);  // true when nothing of it is left
  void finish_ending();
  [[nodiscard]] int timeout_millis();
  void close_front();
  void wait_for_frozen();

  ServiceOptions options_;
  FrontLink front_;
  Poller poller_;
  Cores cores_ = Cores::of_this_process();
  SandboxTable sandboxes_{poller_};
  UserIds uids_{options_.first_uid, options_.uid_count};
  CgroupPool cgroups_{*options_.tree};
  Plans plans_{options_.host, *options_.tree};
  ZygoteGroups zygotes_{options_.zygotes};
  std::map<std::uint32_t, SandboxId> births_;  // pending, by serial
  NetworkHelpers networks_{poller_};
};

Result<> Service::create(const wire::KeeperRequest& request, UniqueFd control) {
  if (!request.id.valid()) return fail(Errc::invalid, "the sandbox id is malformed");
  if (sandboxes_.find(request.id) != nullptr) return fail(Errc::exists, "a sandbox of this id exists");
  if (!control) return fail(Errc::invalid, "no control socket came with the request");
  COVE_TRY(const auto root, plans_.root(request.root));
  if (request.memory_bytes == 0 || request.disk_bytes == 0 || request.inodes == 0 || request.pids == 0 ||
      request.cpu_millis == 0) {
    return fail(Errc::invalid, "a limit is zero");
  }

  Sandbox sandbox;
  sandbox.id = request.id;
  sandbox.root = request.root;
  sandbox.create_serial = request.serial;
  if (cgroups_.enabled()) {
    COVE_TRY(auto cgroup, cgroups_.take());
    sandbox.cgroup.emplace(std::move(cgroup));
    COVE_CHECK(sandbox.cgroup->limit(
        *options_.tree,
        {.memory_bytes = request.memory_bytes, .pids = request.pids, .cpu_millis = request.cpu_millis}));
  }
  COVE_TRY(sandbox.uid, uids_.take());
  sandbox.device_set = sandboxes_.free_device_set(options_.device_sets);
  sandbox.cores = cores_.take(request.cpu_millis);
  auto input = plans_.input(request, sandbox, root);
  input.control_fd = control.get();
  const auto plan = jail::make_plan(input, sandbox.cgroup ? &*sandbox.cgroup : nullptr);
  auto started = jail::start(plan);
  if (!started) {
    uids_.release(sandbox.uid);
    return tl::unexpected<Error>(started.error());
  }
  sandbox.process = std::move(*started);
  sandbox.locks = plans_.locks(request, sandbox);
  if (sandbox.cgroup) sandbox.cgroup->forget_join_fds();
  sandboxes_.add(std::move(sandbox));
  return {};
}

Result<> Service::birth(const wire::KeeperRequest& request, std::vector<UniqueFd> streams) {
  const auto* sandbox = sandboxes_.find(request.id);
  if (sandbox == nullptr || sandbox->ending || !sandbox->running)
    return fail(Errc::not_found, "there is no sandbox of this id");
  if (streams.size() != zygote::kFirstGroupFd - zygote::kStdin) return fail(Errc::invalid, "a stream is missing");
  // The zygote's stand-in would freeze in it, and the zygote would wait. The front requests no birth into a paused
  // sandbox, but may not know yet that it is paused.
  if (sandbox->frozen) return fail(Errc::unavailable, "the sandbox is frozen");
  // One zygote serves every sandbox: one that has once kept it waiting, for want of processor time, say, starts cold.
  if (Clock::now() < sandbox->no_births_before)
    return fail(Errc::unavailable, "births into this sandbox take too long");
  COVE_CHECK(zygotes_.request_birth({.root = sandbox->root, .number = request.zygote, .light = request.light},
                                    {.serial = request.serial,
                                     .init_pidfd = sandbox->process.pidfd.get(),
                                     .locks = sandbox->locks,
                                     .cgroup = sandbox->cgroup ? &*sandbox->cgroup : nullptr,
                                     .streams = std::move(streams)}));
  births_.emplace(request.serial, request.id);
  return {};
}

Result<> Service::adopt_sandbox(const wire::KeeperRequest& request) {
  if (!request.id.valid()) return fail(Errc::invalid, "the sandbox id is malformed");
  if (sandboxes_.find(request.id) != nullptr) return fail(Errc::exists, "a sandbox of this id exists");
  if (sandboxes_.inits().contains(request.init_pid)) return fail(Errc::exists, "this init is another sandbox's");
  COVE_TRY(auto sandbox, adopt(request, *options_.tree));
  uids_.reserve(sandbox.uid);
  sandbox.cores = cores_.take(request.cpu_millis);
  sandbox.locks = plans_.locks(request, sandbox);
  front_.send({.word = KeeperWord::created, .serial = request.serial}, &sandboxes_.add(std::move(sandbox)));
  return {};
}

// Strays become sandboxes that are ending: finish() sees to it that nothing is left of them. Until its init is gone a
// stray has its user id.
Result<> Service::sweep() {
  auto groups = sandboxes_.groups();
  groups.insert(cgroups_.spare_name());
  for (auto& stray : stray_inits(sandboxes_.inits())) {
    uids_.reserve(stray.uid);
    sandboxes_.add(std::move(stray)).kill();
  }
  for (auto& stray : stray_groups(*options_.tree, groups)) sandboxes_.add(std::move(stray)).kill();
  return {};
}

void Service::handle(const wire::KeeperRequest& request, std::vector<UniqueFd> fds) {
  using wire::KeeperVerb;
  constexpr auto kOfOne = std::to_array({KeeperVerb::destroy, KeeperVerb::kill, KeeperVerb::pause, KeeperVerb::resume,
                                         KeeperVerb::inspect, KeeperVerb::relimit, KeeperVerb::network});
  const bool of_one = std::ranges::find(kOfOne, request.verb) != kOfOne.end();
  auto* sandbox = of_one ? sandboxes_.find(request.id) : nullptr;
  if (of_one && sandbox == nullptr)
    return front_.refuse(request, {.code = Errc::not_found, .message = "there is no sandbox of this id"});
  Result<> done;
  bool answered = false;  // by whoever carries it out, now or later
  switch (request.verb) {
    case KeeperVerb::create:
      done = create(request, fds.size() == 1 ? std::move(fds.front()) : UniqueFd());
      answered = true;
      break;
    case KeeperVerb::birth:
      done = birth(request, std::move(fds));
      answered = true;
      break;
    case KeeperVerb::adopt:
      done = adopt_sandbox(request);
      answered = true;
      break;
    case KeeperVerb::destroy:
    case KeeperVerb::kill:
      (request.verb == KeeperVerb::kill ? sandbox->kill_serial : sandbox->destroy_serial) = request.serial;
      sandbox->kill();
      answered = true;
      if (const auto reply = sandbox->take_kill_answer()) front_.send(*reply);
      break;
    case KeeperVerb::sweep:
      done = sweep();
      break;
    case KeeperVerb::retire_template:
      if (request.root != 0) zygotes_.retire(request.root);
      break;
    case KeeperVerb::pause:
      done = sandbox->freeze(std::chrono::milliseconds(request.lease_millis));
      break;
    case KeeperVerb::resume:
      done = sandbox->thaw();
      break;
    case KeeperVerb::relimit:
      done = change_limits(*sandbox, *options_.tree, request);
      if (done) sandbox->locks = plans_.locks(request, *sandbox);  // of what is born into it from now on
      break;
    case KeeperVerb::network:
      done = fds.size() == 2 ? networks_.start(sandbox->process.pidfd.get(), std::move(fds[0]), std::move(fds[1]))
                             : fail(Errc::invalid, "a descriptor is missing");
      break;
    case KeeperVerb::inspect:
      break;
    default:
      done = fail(Errc::invalid, "unknown request");
  }
  if (!done) return front_.refuse(request, done.error());
  if (!answered) front_.send({.word = KeeperWord::done, .serial = request.serial}, sandbox);
}

void Service::read_report(Sandbox& sandbox) {
  if (const auto failure = sandboxes_.take_report(sandbox)) {
    sandbox.failure = *failure;
    sandbox.kill();
    return;
  }
  if (sandbox.ending) return;  // a line that ends with the process says nothing
  sandbox.running = true;
  front_.send({.word = KeeperWord::created, .serial = sandbox.create_serial}, &sandbox);
}

void Service::process_ended(Sandbox& sandbox) {
  sandboxes_.reap(sandbox);
  if (const auto reply = sandbox.take_kill_answer()) front_.send(*reply);
  if (!sandbox.ending && sandbox.running) front_.send({.word = KeeperWord::died}, &sandbox);
}

void Service::report_births() {
  for (const auto& result : zygotes_.collect_births()) {
    const auto found = births_.extract(result.serial);
    if (found.empty()) continue;
    if (auto* sandbox = result.slow ? sandboxes_.find(found.mapped()) : nullptr)
      sandbox->no_births_before = Clock::now() + kNoBirths;
    wire::KeeperReply reply{.word = KeeperWord::born, .serial = result.serial, .id = found.mapped()};
    if (result.born && result.born->pid > 0) {
      reply.born_pid = result.born->pid;
    } else {
      reply.word = KeeperWord::failed;
      const Result<> failed =
          result.born ? fail_errno(result.born->failure.sys_errno, "{}", jail::words_for(result.born->failure.stage))
                      : tl::unexpected<Error>(result.born.error());
      wire::set_error(reply, failed.error());
    }
    front_.send(reply);
  }
}

void Service::check_memory() {
  for (auto& [number, sandbox] : sandboxes_) {
    if (!sandbox.recheck_memory_until) continue;
    const bool killed = sandbox.cgroup && sandbox.cgroup->consume_oom_event();
    if (killed) front_.send({.word = KeeperWord::out_of_memory}, &sandbox);
    if (killed || !sandbox.cgroup || Clock::now() > *sandbox.recheck_memory_until) sandbox.recheck_memory_until.reset();
  }
}

bool Service::finish(Sandbox& sandbox) {
  if (!sandbox.reaped) return false;
  wire::KeeperReply reply{.word = KeeperWord::gone, .serial = sandbox.destroy_serial};
  if (sandbox.cgroup) {
    const auto usage = sandbox.destroy_serial != 0 ? sandbox.cgroup->usage() : sys::CgroupUsage();
    if (const auto removed = sandbox.cgroup->remove(); !removed && removed.error().code == Errc::unavailable) {
      [[maybe_unused]] const auto killed = sandbox.cgroup->kill_all();
      return false;
    }
    sandbox.cgroup.reset();
    set_usage(reply, usage);
  }
  uids_.release(sandbox.uid);
  if (sandbox.destroy_serial != 0) front_.send(reply, &sandbox);
  if (sandbox.running) return true;
  // Whoever waits for its creation is answered, also when somebody else had it destroyed meanwhile.
  reply.word = KeeperWord::failed;
  reply.serial = sandbox.create_serial;
  wire::set_error(reply, creation_failure(sandbox));
  front_.send(reply, &sandbox);
  return true;
}

void Service::finish_ending() {
  sandboxes_.remove_if([this](Sandbox& sandbox) { return sandbox.ending && finish(sandbox); });
}

// Sandboxes live on without a keeper, and end by themselves when their lease is over; a frozen one cannot. The next
// keeper ends this one and takes over (predecessor.hpp).
void Service::wait_for_frozen() {
  sandboxes_.remove_if([](Sandbox& sandbox) {
    const bool stays = sandbox.frozen && !sandbox.reaped;
    if (!stays && sandbox.cgroup) sandbox.cgroup->abandon();
    return !stays;
  });
  if (sandboxes_.empty()) return;
  [[maybe_unused]] const auto told = ::write(options_.lingers.get(), "+", 1);
  options_.lingers.reset();
  while (!sandboxes_.empty()) {
    auto next = Clock::now() + std::chrono::hours(1);
    bool ending = false;
    for (auto& [number, sandbox] : sandboxes_) {
      if (!sandbox.ending && Clock::now() >= sandbox.lease_until) sandbox.kill();
      if (!sandbox.ending) next = std::min(next, sandbox.lease_until);
      ending = ending || sandbox.ending;
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
    const int timeout = ending ? kRemoveRetryMillis : static_cast<int>(std::max<std::int64_t>(0, wait));
    for (const auto event : poller_.wait(timeout)) {
      auto* sandbox = sandboxes_.find(event.sandbox);
      if (event.source != Poller::Source::process || sandbox == nullptr || sandbox->reaped) continue;
      process_ended(*sandbox);
      sandbox->kill();
    }
    finish_ending();
  }
}

int Service::timeout_millis() {
  bool emptying = false;    // a group still has dying processes
  bool rechecking = false;  // a kill is not counted yet
  for (const auto& [number, sandbox] : sandboxes_) {
    emptying = emptying || (sandbox.ending && sandbox.reaped);
    rechecking = rechecking || sandbox.recheck_memory_until;
  }
  const int timeout = emptying                 ? kRemoveRetryMillis
                      : cgroups_.wants_spare() ? 0
                      : rechecking             ? kMemoryRecheckMillis
                                               : -1;
  const int due = zygotes_.wait_millis();
  return due < 0 ? timeout : timeout < 0 ? due : std::min(timeout, due);
}

void Service::handle(Poller::Event event) {
  if (event.source == Poller::Source::front) {
    while (auto request = front_.receive()) handle(request->record, std::move(request->fds));
    return;
  }
  if (event.source == Poller::Source::network) return networks_.reap();
  auto* sandbox = sandboxes_.find(event.sandbox);
  if (sandbox == nullptr) return;
  if (event.source == Poller::Source::report && sandbox->process.report) read_report(*sandbox);
  if (event.source == Poller::Source::process && !sandbox->reaped) process_ended(*sandbox);
  if (event.source == Poller::Source::oom) sandbox->recheck_memory_until = Clock::now() + kMemoryRecheckFor;
}

// Nothing new is made from here on.
void Service::close_front() {
  poller_.remove(front_.fd());
  front_.close();
  cgroups_.close();
  zygotes_.close();
}

int Service::run() {
  poller_.add(front_.fd(), {.source = Poller::Source::front});
  if (options_.zygotes.births > 0) {
    zygotes_.open([this](std::uint32_t root) { return plans_.zygote(root); });
    poller_.add(zygotes_.fd(), {.source = Poller::Source::zygotes});
  }
  while (!front_.gone() || !sandboxes_.empty()) {
    const auto events = poller_.wait(timeout_millis());
    if (events.empty() && cgroups_.wants_spare() && !front_.gone()) cgroups_.make_spare();
    for (const auto event : events) handle(event);
    report_births();
    check_memory();
    if (front_.gone() && front_.is_open()) {
      close_front();
      if (options_.keep) {
        wait_for_frozen();
        return 0;
      }
      for (auto& [number, sandbox] : sandboxes_) sandbox.kill();
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
