#include "run/workplace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.hpp"

namespace cove::run {

async::Task<Result<sandbox::Admission::Ticket>> admit(sandbox::Core& core, Caller caller,
                                                      std::optional<std::chrono::milliseconds> patience) {
  const auto share = core.authority.allowance(caller.principal).executions;
  return core.admission.enter(caller.principal.tenant, share, std::move(caller.gone), patience);
}

Result<> admit_background(sandbox::Core& core, const Principal& principal) {
  return core.admission.begin_background(principal.tenant, core.authority.allowance(principal).executions);
}

jail::Limits default_limits(const config::Config& config, std::uint64_t memory_bytes) {
  const auto& limits = config.sandbox;
  const auto memory = memory_bytes != 0 ? memory_bytes : limits.memory_bytes;
  return {.memory_bytes = memory,
          .disk_bytes = std::min(limits.disk_for(memory), sandbox::most_disk_bytes(memory)),
          .inodes = limits.inodes,
          .pids = limits.pids,
          .cpu_millis = limits.cpu_millis};
}

async::Task<Result<sandbox::Lease>> acquire(sandbox::Core& core, Principal principal, Throwaway wanted) {
  sandbox::CreateRequest request;
  request.tenant = principal.tenant;
  request.name =
      fmt::format("{}-{:016x}{:016x}", wanted.prefix, random_number<std::uint64_t>(), random_number<std::uint64_t>());
  request.purpose = sandbox::Purpose::throwaway;
  if (wanted.python && core.config->python.warm) {
    using Content = sandbox::Pool::Content;
    request.content = wanted.light ? Content::light_program : Content::program;
  }
  request.limits = wanted.limits;
  request.network_json = std::move(wanted.network_json);
  const auto quotas = core.authority.allowance(principal).sandboxes;
  auto made = co_await core.registry.ensure(std::move(request), quotas, sandbox::IfThere::refuse);
  if (!made) co_return tl::unexpected<Error>(made.error());
  co_return sandbox::Lease(core.registry, made->sandbox);
}

Workplace::Workplace(sandbox::Admission::Ticket ticket, sandbox::Lease lease)
    : ticket_(std::move(ticket)), sandbox_(lease.sandbox()), hold_(std::move(lease)) {}

Workplace::Workplace(sandbox::Admission::Ticket ticket, std::shared_ptr<sandbox::Sandbox> sandbox)
    : ticket_(std::move(ticket)), sandbox_(std::move(sandbox)), hold_(sandbox::Sandbox::Activity(sandbox_)) {}

}  // namespace cove::run
