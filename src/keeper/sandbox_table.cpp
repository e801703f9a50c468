#include "keeper/sandbox_table.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "sys/process.hpp"

namespace cove::keeper {

Result<> Sandbox::freeze(std::chrono::milliseconds lease) {
  const auto done =
      cgroup ? cgroup->freeze()
             : fail(Errc::unsupported, "pause is not possible here: there is no freezer control group (cove doctor)");
  frozen = done.has_value();
  lease_until = Clock::now() + lease;
  return done;
}

Result<> Sandbox::thaw() {
  const auto done =
      cgroup ? cgroup->thaw()
             : fail(Errc::unsupported, "pause is not possible here: there is no freezer control group (cove doctor)");
  frozen = frozen && !done;
  return done;
}

void Sandbox::kill() {
  ending = true;
  // The pid namespace dies with its init; the group also holds whoever entered the sandbox from outside.
  if (!reaped) sys::kill_process(process.pidfd.get());
  if (cgroup && !(reaped && cgroup->empty())) {
    [[maybe_unused]] const auto killed = cgroup->kill_all();  // removing the group shows whether it worked
    cgroup->lift_cpu_limit();
  }
}

std::optional<wire::KeeperReply> Sandbox::take_kill_answer() {
  if (kill_serial == 0 || !reaped) return std::nullopt;
  return wire::KeeperReply{.word = wire::KeeperWord::done, .serial = std::exchange(kill_serial, 0), .id = id};
}

Sandbox& SandboxTable::add(Sandbox sandbox) {
  const auto number = next_number_++;
  auto& added = sandboxes_.emplace(number, std::move(sandbox)).first->second;
  using Source = Poller::Source;
  if (added.process.report) poller_.add(added.process.report.get(), {.sandbox = number, .source = Source::report});
  if (added.process.pidfd) poller_.add(added.process.pidfd.get(), {.sandbox = number, .source = Source::process});
  if (added.cgroup && added.cgroup->oom_fd() >= 0)
    poller_.add(added.cgroup->oom_fd(), {.sandbox = number, .source = Source::oom}, EPOLLIN | EPOLLPRI | EPOLLET);
  return added;
}

Sandbox* SandboxTable::find(const SandboxId& id) {
  for (auto& [number, sandbox] : sandboxes_) {
    if (sandbox.id == id) return &sandbox;
  }
  return nullptr;
}

Sandbox* SandboxTable::find(std::uint32_t number) {
  const auto found = sandboxes_.find(number);
  return found == sandboxes_.end() ? nullptr : &found->second;
}

std::optional<jail::Report> SandboxTable::take_report(Sandbox& sandbox) {
  jail::Report report;
  const auto n = ::read(sandbox.process.report.get(), &report, sizeof report);
  poller_.remove(sandbox.process.report.get());
  sandbox.process.report.reset();
  if (n == 0) return std::nullopt;
  return n == static_cast<ssize_t>(sizeof report) ? report : jail::Report{.stage = jail::Stage::none, .sys_errno = EIO};
}

void SandboxTable::reap(Sandbox& sandbox) {
  siginfo_t info{};
  ::waitid(P_PIDFD, static_cast<id_t>(sandbox.process.pidfd.get()), &info, WEXITED);
  poller_.remove(sandbox.process.pidfd.get());
  sandbox.reaped = true;
}

std::set<pid_t> SandboxTable::inits() const {
  std::set<pid_t> pids;
  for (const auto& [number, sandbox] : sandboxes_) pids.insert(sandbox.process.pid);
  return pids;
}

std::set<std::string> SandboxTable::groups() const {
  std::set<std::string> names;
  for (const auto& [number, sandbox] : sandboxes_) {
    if (sandbox.cgroup) names.insert(sandbox.cgroup->name());
  }
  return names;
}

std::uint32_t SandboxTable::free_device_set(std::uint32_t count) const {
  std::set<std::uint32_t> taken;
  for (const auto& [number, sandbox] : sandboxes_) taken.insert(sandbox.device_set);
  for (std::uint32_t set = 0; set < count; ++set) {
    if (!taken.contains(set)) return set;
  }
  return 0;
}

Error creation_failure(const Sandbox& sandbox) {
  if (sandbox.destroy_serial != 0 && sandbox.failure.sys_errno == 0)
    return {.code = Errc::unavailable, .message = "the sandbox was destroyed while it was created"};
  return fail_errno(sandbox.failure.sys_errno, "could not {}", jail::words_for(sandbox.failure.stage)).value();
}

}  // namespace cove::keeper
