#include "keeper/plans.hpp"

#include "keeper/own_root.hpp"

namespace cove::keeper {
namespace {

constexpr int kNiceWithoutGroups = 5;  // so that the server keeps its share of the processor
constexpr std::uint64_t kZygoteDisk = 64U << 20;
constexpr std::uint64_t kZygoteInodes = 4096;

}  // namespace

Result<jail::Root> Plans::root(std::uint32_t number) const {
  if (number == 0) return host_;
  return template_root(number, host_);
}

jail::PlanInput Plans::input(const wire::KeeperRequest& request, const Sandbox& sandbox, const jail::Root& root) const {
  const bool counted = tree_.limits_memory() && tree_.limits_pids();
  return {
      .root = root,
      .limits = {.memory_bytes = request.memory_bytes,
                 .disk_bytes = request.disk_bytes,
                 .inodes = request.inodes,
                 .pids = request.pids,
                 .cpu_millis = request.cpu_millis},
      .raisable = {.disk_bytes = request.max_disk_bytes, .pids = request.max_pids},
      .uid = sandbox.uid,
      .gid = sandbox.uid,
      .terminal = request.terminal == wire::SandboxTerminal::available ? jail::TerminalSupport::available
                                                                       : jail::TerminalSupport::none,
      // What is born into a sandbox is in a Landlock domain of its own, and init must be able to signal it.
      .signals =
          request.births == wire::SandboxBirths::possible ? sys::SignalScope::unscoped : sys::SignalScope::own_domain,
      .device_set = sandbox.device_set,
      .cores = sandbox.cores.set(),
      .backstop = counted ? jail::LimitBackstop::cgroup : jail::LimitBackstop::rlimit,
      .nice = tree_.limits_cpu() ? 0 : kNiceWithoutGroups,
      .landlock_abi = landlock_abi_,
      .control_fd = -1,
  };
}

jail::Locks Plans::locks(const wire::KeeperRequest& request, const Sandbox& sandbox) const {
  return jail::make_locks(input(request, sandbox, host_));
}

Result<jail::Plan> Plans::zygote(std::uint32_t number) const {
  const wire::KeeperRequest request{.disk_bytes = kZygoteDisk, .inodes = kZygoteInodes, .pids = 1, .cpu_millis = 1};
  COVE_TRY(const auto in, root(number));
  return jail::make_plan(input(request, {}, in), nullptr);
}

}  // namespace cove::keeper
