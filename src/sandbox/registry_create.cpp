// How sandboxes come into the registry: quotas, the pool, and what is made when nothing stands ready.
#include <algorithm>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "base/units.hpp"
#include "sandbox/registry.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kLeavingTime{5};  // that a new one waits for the places of those that are leaving

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
  if (by_id_.size() + leaving_.size() >= options_.max_sandboxes)
    return fail(Errc::quota,
                fmt::format("the server's limit of {} sandboxes is reached: delete one first", options_.max_sandboxes));
  const auto count =
      std::ranges::count_if(by_name_, [&](const auto& entry) { return entry.first.first == request.tenant; }) +
      std::ranges::count_if(leaving_, [&](const auto& entry) { return entry.second->tenant() == request.tenant; });
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
  for (const auto& [id, sandbox] : leaving_) {
    if (sandbox->tenant() == tenant) memory += sandbox->row().memory_bytes;
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
std::shared_ptr<Sandbox> Registry::make_unnamed(const PoolKind& kind, const std::string& tenant) {
  const auto& limits = kind.limits;
  store::SandboxRow row{.tenant = tenant,
                        .id = std::string(SandboxId::random().view()),
                        .pod_name = pod_name(),
                        .created_unix_ms = unix_millis(),
                        .boot_id = boot_id_,
                        .memory_bytes = limits.memory_bytes,
                        .disk_bytes = limits.disk_bytes,
                        .inodes = limits.inodes,
                        .pids = limits.pids,
                        .cpu_millis = limits.cpu_millis};
  // What waits for a program is never given a name.
  const bool program = kind.content == Pool::Content::program || kind.content == Pool::Content::light_program;
  const auto line = program ? Line::once : Line::named;
  return std::make_shared<Sandbox>(context_, std::move(row), Purpose::throwaway, line);
}

// One whose name or place is taken by another that is going waits for it.
async::Task<Result<std::shared_ptr<Sandbox>>> Registry::make_way(CreateRequest request, Quotas quotas,
                                                                 IfThere if_there) {
  const Key key(request.tenant, request.name);
  const auto until = std::chrono::steady_clock::now() + kLeavingTime;
  while (true) {
    if (const auto found = by_name_.find(key); found != by_name_.end()) {
      const auto sandbox = found->second;
      const bool alive = sandbox->state() == State::running || sandbox->state() == State::paused;
      if (alive && !sandbox->expired()) {
        if (if_there == IfThere::refuse)
          co_return fail(Errc::exists, fmt::format("a sandbox with this id already exists: {}", request.name));
        co_return sandbox;
      }
      if (alive)
        co_await remove(sandbox, "expired");
      else
        co_await sandbox->changed().wait();
      continue;
    }
    auto allowed = check_quotas(request, quotas);
    if (allowed) co_return std::shared_ptr<Sandbox>();
    if (leaving_.empty() || !co_await left_.wait_until(until)) co_return tl::unexpected<Error>(allowed.error());
  }
}

std::shared_ptr<Sandbox> Registry::take_ready(const CreateRequest& request) {
  if (request.content != Pool::Content::nothing) {
    const auto line = context_.zygotes.of(request.tenant) == 0 ? std::string() : request.tenant;
    if (auto ready = pool_.take(request.limits, request.content, line)) return ready;
  }
  if (auto ready = pool_.take(request.limits, Pool::Content::nothing, "")) return ready;
  return limits_can_change_ ? pool_.take_similar(request.limits) : nullptr;
}

void Registry::enroll(const std::shared_ptr<Sandbox>& sandbox) {
  by_name_.emplace(Key(sandbox->tenant(), sandbox->name()), sandbox);
  by_id_.emplace(sandbox->row().id, sandbox);
}

// Gives one that stood ready its owner's row and limits. Errc::conflict: it is not what is wanted, and is thrown away.
async::Task<Result<>> Registry::adapt(std::shared_ptr<Sandbox> ready, store::SandboxRow row, Purpose purpose) {
  const SandboxLimits wanted{
      .memory_bytes = row.memory_bytes, .disk_bytes = row.disk_bytes, .pids = row.pids, .cpu_millis = row.cpu_millis};
  // No interpreter goes to another tenant.
  if (!ready->tenant().empty() && ready->tenant() != row.tenant) {
    tasks_.spawn("throw away a sandbox", ready->discard());
    co_return fail(Errc::conflict, "it is another tenant's");
  }
  ready->take_identity(std::move(row), purpose);
  enroll(ready);
  if (ready->limits() == wanted) co_return Result<>();
  ready->set_state(State::creating);
  const auto changed = co_await ready->apply_limits(wanted);
  if (ready->state() != State::creating) co_return fail(Errc::unavailable, "the sandbox was removed while it was made");
  if (changed) co_return Result<>();
  limits_can_change_ = limits_can_change_ && changed.error().code != Errc::unsupported;
  by_name_.erase(Key(ready->tenant(), ready->name()));
  by_id_.erase(ready->row().id);
  tasks_.spawn("throw away a sandbox", ready->discard());
  co_return fail(Errc::conflict, changed.error().message);
}

async::Task<Result<>> Registry::make_new(std::shared_ptr<Sandbox> sandbox) {
  if (sandbox->purpose() == Purpose::named) {
    if (auto written = store_.sandboxes().insert(sandbox->row()); !written) co_return written;
  }
  enroll(sandbox);
  auto made = co_await sandbox->create();
  if (made) co_return made;
  // Whatever was made of it goes.
  co_await remove(sandbox, "failed");
  // Whatever the kernel said, it said it to us: to the caller it is a failure of the server, or one that may pass.
  auto error = made.error();
  if (error.code != Errc::unavailable && error.code != Errc::over_limit) error.code = Errc::io;
  co_return tl::unexpected<Error>(std::move(error));
}

// Nothing runs in a sandbox whose network is not what was asked for.
async::Task<Result<>> Registry::open_network(std::shared_ptr<Sandbox> sandbox, std::string policy_json) {
  if (networking_ == nullptr) co_return Result<>();
  auto opened = co_await networking_->open(sandbox, std::move(policy_json));
  if (!opened) co_await remove(sandbox, "failed");
  co_return opened;
}

async::Task<Result<Registry::Ensured>> Registry::ensure(CreateRequest request, Quotas quotas, IfThere if_there) {
  COVE_CO_TRY(const auto there, co_await make_way(request, quotas, if_there));
  if (there) {
    there->set_ttl(request.ttl);
    sooner_.notify_all();
    co_return Ensured{.sandbox = there, .created = false};
  }
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
                        .renewal = request.renewal,
                        .directory = request.directory};
  // What is not written down is nobody's after a crash, and swept by the next keeper.
  auto sandbox = (*from)->number == 0 ? take_ready(request) : nullptr;
  if (sandbox) {
    const auto fits = co_await adapt(sandbox, row, request.purpose);
    if (!fits && fits.error().code != Errc::conflict) co_return tl::unexpected<Error>(fits.error());
    if (!fits) sandbox.reset();
    if (fits && request.purpose == Purpose::named) {
      if (auto written = store_.sandboxes().insert(sandbox->row()); !written) {
        co_await remove(sandbox, "failed");
        co_return tl::unexpected<Error>(written.error());
      }
    }
  }
  if (!sandbox) {
    const auto line = request.purpose == Purpose::throwaway ? Line::once : Line::named;
    sandbox = std::make_shared<Sandbox>(context_, std::move(row), request.purpose, line);
    COVE_CO_CHECK(co_await make_new(sandbox));
  }
  COVE_CO_CHECK(co_await open_network(sandbox, std::move(request.network_json)));
  sandbox->set_state(State::running);
  if (networking_ != nullptr) {
    if (auto furnished = co_await networking_->furnish(sandbox); !furnished) {
      co_await remove(sandbox, "failed");
      co_return tl::unexpected<Error>(furnished.error());
    }
  }
  ++counters_.created;
  publish("created", *sandbox, "{}", request.actor);
  sooner_.notify_all();
  co_return Ensured{.sandbox = sandbox, .created = true};
}

}  // namespace cove::sandbox
