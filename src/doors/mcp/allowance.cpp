#include "doors/mcp/allowance.hpp"

#include <fmt/format.h>

#include "base/random.hpp"

namespace cove::doors::mcp {

jail::Limits sandbox_limits(const config::Config& config) {
  return {.memory_bytes = config.sandbox.memory_bytes,
          .disk_bytes = std::min(config.sandbox.disk_bytes, sandbox::most_disk_bytes(config.sandbox.memory_bytes)),
          .inodes = config.sandbox.inodes,
          .pids = config.sandbox.pids,
          .cpu_millis = config.sandbox.cpu_millis};
}

sandbox::Quotas sandbox_share(const Services& services, const cove::mcp::Call& call) {
  const auto quotas = services.quotas({.tenant = call.tenant, .key_id = call.key_id});
  return {.sandboxes = quotas.max_sandboxes, .memory_bytes = quotas.max_memory_bytes};
}

Task<Result<sandbox::Admission::Ticket>> enter(Services& services, cove::mcp::Call& call) {
  const auto quotas = services.quotas({.tenant = call.tenant, .key_id = call.key_id});
  const sandbox::Admission::Share share{.at_once = quotas.concurrent_executions,
                                        .per_minute = quotas.executions_per_minute};
  co_return co_await services.admission.enter(call.tenant, share, [&call] { return call.cancelled(); });
}

Task<Result<sandbox::Lease>> borrow_sandbox(Services& services, const cove::mcp::Call& call) {
  if (services.draining()) co_return fail(Errc::unavailable, "the server is shutting down");
  sandbox::CreateRequest request;
  request.tenant = call.tenant;
  request.name = fmt::format("work-{:016x}{:016x}", random_number<std::uint64_t>(), random_number<std::uint64_t>());
  request.purpose = sandbox::Purpose::throwaway;
  request.limits = sandbox_limits(*services.config());
  auto made =
      co_await services.registry.ensure(std::move(request), sandbox_share(services, call), sandbox::IfThere::refuse);
  if (!made) co_return tl::unexpected<Error>(made.error());
  co_return sandbox::Lease(services.registry, made->sandbox);
}

}  // namespace cove::doors::mcp
