// How sandboxes come into the registry: quotas, the pool, and what is made when nothing stands ready.
#include <algorithm>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/units.hpp"
#include "sandbox/registry.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;

std::string pod_name() {
  return fmt::format("sbx-{:010x}", random_number<std::uint64_t>() & 0xff'ffff'ffff);
}

Result<> check_memory(const Quotas& quotas, std::uint64_t memory) {
  if (quotas.memory_bytes == 0 || memory <= quotas.memory_bytes) return {};
  return fail(Errc::quota,
              fmt::format("this tenant's sandboxes may have at most {} of memory in total: {} would be more",
                          format_size(quotas.memory_bytes), format_size(memory)));
}

}  // namespace

Result<> Registry::check_quotas(const CreateRequest& request, const Quotas& quotas) const {
  if (by_id_.size() >= options_.max_sandboxes)
    return fail(Errc::quota,
                fmt::format("the server's limit of {} sandboxes is reached: delete one first", options_.max_sandboxes));
  const auto count =
      std::ranges::count_if(by_name_, [&](const auto& entry) { return entry.first.first == request.tenant; });
  if (quotas.sandboxes != 0 && std::cmp_greater_equal(count, quotas.sandboxes))
    return fail(Errc::quota,
                fmt::format("this tenant's limit of {} sandboxes is reached: delete one first", quotas.sandboxes));
  return check_memory(quotas, memory_of(request.tenant, nullptr) + request.limits.memory_bytes);
}

std::uint64_t Registry::memory_of(const std::string& tenant, const Sandbox* without) const {
  std::uint64_t memory = 0;
  for (const auto& [key, sandbox] : by_name_) {
    if (key.first == tenant && sandbox.get() != without) memory += sandbox->row().memory_bytes;
  }
  return memory;
}

async::Task<Result<>> Registry::set_limits(std::shared_ptr<Sandbox> sandbox, SandboxLimits limits, Quotas quotas) {
  const auto others = memory_of(sandbox->tenant(), sandbox.get());
  if (auto allowed = check_memory(quotas, others + limits.memory_bytes); !allowed) co_return allowed;
  if (auto done = co_await sandbox->set_limits(limits); !done) co_return done;
  publish("updated", *sandbox,
          fmt::format(R"({{"memoryBytes": {}, "diskBytes": {}, "pids": {}, "cpuMillis": {}}})", limits.memory_bytes,
                      limits.disk_bytes, limits.pids, limits.cpu_millis));
  co_return Result<>();
}

// For the pool: made before anybody asked for it.
std::shared_ptr<Sandbox> Registry::make_unnamed(const jail::Limits& limits) {
  store::SandboxRow row{.id = std::string(SandboxId::random().view()),
                        .pod_name = pod_name(),
                        .created_unix_ms = unix_millis(),
                        .boot_id = boot_id_,
                        .memory_bytes = limits.memory_bytes,
                        .disk_bytes = limits.disk_bytes,
                        .inodes = limits.inodes,
                        .pids = limits.pids,
                        .cpu_millis = limits.cpu_millis};
  return std::make_shared<Sandbox>(context_, std::move(row), Purpose::throwaway);
}

async::Task<Result<Registry::Ensured>> Registry::ensure(CreateRequest request, Quotas quotas, IfThere if_there) {
  const Key key(request.tenant, request.name);
  // One that is going makes way first.
  for (auto found = by_name_.find(key); found != by_name_.end(); found = by_name_.find(key)) {
    const auto sandbox = found->second;
    const auto state = sandbox->state();
    if ((state == State::running || state == State::paused) && !sandbox->expired()) {
      if (if_there == IfThere::refuse)
        co_return fail(Errc::exists, fmt::format("a sandbox with this id already exists: {}", request.name));
      sandbox->set_ttl(request.ttl);
      sooner_.notify_all();
      co_return Ensured{.sandbox = sandbox, .created = false};
    }
    if (state == State::running || state == State::paused) {
      co_await remove(sandbox, "expired");
      continue;
    }
    co_await sandbox->changed().wait();
  }
  if (auto allowed = check_quotas(request, quotas); !allowed) co_return tl::unexpected<Error>(allowed.error());
  const auto from = templates_.usable(request.template_name);
  if (!from) co_return tl::unexpected<Error>(from.error());

  request.limits.disk_bytes = std::min(request.limits.disk_bytes, most_disk_bytes(request.limits.memory_bytes));
  store::SandboxRow row{.tenant = request.tenant,
                        .name = request.name,
                        .id = std::string(SandboxId::random().view()),
                        .pod_name = pod_name(),
                        .state = "creating",
                        .created_unix_ms = unix_millis(),
                        .ttl_ms = request.ttl.count(),
                        .expires_boot_ms = (boot_time() + request.ttl).count(),
                        .boot_id = boot_id_,
                        .memory_bytes = request.limits.memory_bytes,
                        .disk_bytes = request.limits.disk_bytes,
                        .inodes = request.limits.inodes,
                        .pids = request.limits.pids,
                        .cpu_millis = request.limits.cpu_millis,
                        .template_name = request.template_name,
                        .env_json = request.env_json,
                        .labels_json = request.labels_json,
                        .metadata_json = request.metadata_json,
                        .notes_json = request.notes_json,
                        .renewal = request.renewal};
  // What is not written down is nobody's after a crash, and swept by the next keeper.
  const bool python = request.python && context_.zygotes.of(request.tenant) == 0;
  const auto ready = (*from)->number == 0 ? pool_.take(request.limits, python) : nullptr;
  if (ready) ready->take_identity(std::move(row), request.purpose);
  const auto sandbox = ready ? ready : std::make_shared<Sandbox>(context_, std::move(row), request.purpose);
  if (request.purpose == Purpose::named) {
    if (auto written = store_.sandboxes().insert(sandbox->row()); !written) {
      if (ready) co_await ready->discard();
      co_return tl::unexpected<Error>(written.error());
    }
  }
  by_name_.emplace(key, sandbox);
  by_id_.emplace(sandbox->row().id, sandbox);
  auto made = ready ? Result<>() : co_await sandbox->create();
  if (!made) {
    // Whatever was made of it goes.
    co_await remove(sandbox, "failed");
    // Whatever the kernel said, it said it to us: to the caller it is a failure of the server, or one that may pass.
    auto error = made.error();
    if (error.code != Errc::unavailable && error.code != Errc::over_limit) error.code = Errc::io;
    co_return tl::unexpected<Error>(std::move(error));
  }
  sandbox->set_state(State::running);
  ++counters_.created;
  publish("created", *sandbox);
  sooner_.notify_all();
  co_return Ensured{.sandbox = sandbox, .created = true};
}

}  // namespace cove::sandbox
