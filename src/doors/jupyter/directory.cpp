#include "doors/jupyter/directory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "async/deadline.hpp"
#include "base/random_name.hpp"
#include "base/sha256.hpp"

namespace cove::doors::jupyter {
namespace {

constexpr std::chrono::seconds kTidyInterval{10};
constexpr std::string_view kIdVariable = "KERNEL_ID=";

std::string as_uuid(std::string_view hex) {
  return fmt::format("{}-{}-{}-{}-{}", hex.substr(0, 8), hex.substr(8, 4), hex.substr(12, 4), hex.substr(16, 4),
                     hex.substr(20, 12));
}

std::string id_of(const sandbox::Sandbox& sandbox, const sandbox::Kernel& kernel) {
  // One that the client chose is among its variables.
  for (const std::string_view variable : kernel.variables()) {
    if (variable.starts_with(kIdVariable) && is_uuid(variable.substr(kIdVariable.size())))
      return std::string(variable.substr(kIdVariable.size()));
  }
  Sha256 hash;
  hash.add(fmt::format("{}/{}", sandbox.row().id, kernel.id()));
  return as_uuid(hash.hex());
}

}  // namespace

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool dash = at == 8 || at == 13 || at == 18 || at == 23;
    if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

std::string random_uuid() {
  return as_uuid(random_name(""));
}

Directory::Directory(sandbox::Core& core) : core_(core) {}

bool Directory::made_here(const sandbox::Sandbox& sandbox) {
  return sandbox.row().labels_json == kLabels;
}

std::vector<NamedKernel> Directory::all(const std::string& tenant, const sandbox::Sandbox* in) const {
  std::vector<NamedKernel> found;
  for (const auto& sandbox : core_.registry.of(tenant, "")) {
    if (in != nullptr && sandbox.get() != in) continue;
    for (const auto& kernel : core_.registry.kernels().of(*sandbox))
      found.push_back({.id = id_of(*sandbox, *kernel), .sandbox = sandbox, .kernel = kernel});
  }
  return found;
}

Result<NamedKernel> Directory::find(const std::string& tenant, const sandbox::Sandbox* in, std::string_view id) const {
  auto kernels = all(tenant, in);
  const auto found = std::ranges::find(kernels, id, &NamedKernel::id);
  if (found == kernels.end()) return fail(Errc::not_found, fmt::format("Kernel does not exist: {}", id));
  return std::move(*found);
}

std::shared_ptr<Hub> Directory::known_hub(const sandbox::Kernel& kernel) const {
  const auto found = hubs_.find(&kernel);
  return found == hubs_.end() ? nullptr : found->second;
}

std::shared_ptr<Hub> Directory::hub(const NamedKernel& named) {
  auto& hub = hubs_[named.kernel.get()];
  if (!hub || hub->closed()) {
    const auto& limits = core_.config->jupyter;
    replay_.set_limits({.of_one = limits.tenant_replay_bytes, .of_all = limits.max_replay_bytes});
    hub = std::make_shared<Hub>(core_, named.sandbox, named.kernel, named.id, replay_,
                                [this, named] { core_.tasks.spawn("remove a kernel", remove_later(*this, named)); });
  }
  return hub;
}

Task<> Directory::remove_later(Directory& self, NamedKernel named) {
  co_await self.remove(std::move(named));
}

Task<> Directory::remove(NamedKernel named, journal::Actor actor) {
  if (const auto hub = hubs_.find(named.kernel.get()); hub != hubs_.end()) {
    const auto closing = hub->second;
    hubs_.erase(hub);
    closing->close();
  }
  co_await core_.registry.kernels().remove(named.sandbox, named.kernel, actor);
  if (made_here(*named.sandbox) && core_.registry.kernels().of(*named.sandbox).empty())
    co_await core_.registry.remove(named.sandbox, "deleted", std::move(actor));
}

Task<> Directory::tidy() {
  while (true) {
    co_await async::sleep_for(kTidyInterval);
    co_await cull();
    // A hub that nobody uses is made again when somebody does; one whose sandbox is gone is of no use.
    for (auto hub = hubs_.begin(); hub != hubs_.end();) {
      const auto current = hub->second;
      const auto state = current->sandbox()->state();
      const auto kernels = core_.registry.kernels().of(*current->sandbox());
      const bool removed = std::ranges::find(kernels, current->kernel()) == kernels.end();
      const bool gone = removed || (state != sandbox::State::running && state != sandbox::State::paused);
      if (gone) current->close();
      hub = gone ? hubs_.erase(hub) : std::next(hub);
    }
  }
}

Task<> Directory::cull() {
  const auto config = core_.config();
  if (config->jupyter.cull_idle.count() == 0) co_return;
  const auto now = std::chrono::system_clock::now();
  std::vector<NamedKernel> idle;
  for (const auto& sandbox : core_.registry.all()) {
    if (!made_here(*sandbox)) continue;
    for (const auto& kernel : core_.registry.kernels().of(*sandbox)) {
      const auto id = id_of(*sandbox, *kernel);
      const auto hub = known_hub(*kernel);
      const auto started = std::chrono::system_clock::time_point(std::chrono::milliseconds(kernel->started_unix_ms()));
      const auto used = hub ? hub->last_activity() : started;
      const bool busy = kernel->state() == sandbox::Kernel::State::busy || (hub && hub->busy());
      const bool connected = hub && hub->connections() > 0;
      if (busy || (connected && !config->jupyter.cull_connected) || now - used < config->jupyter.cull_idle) continue;
      idle.push_back({.id = id, .sandbox = sandbox, .kernel = kernel});
    }
  }
  for (auto& named : idle) {
    // Ending those before it took a while.
    const auto hub = known_hub(*named.kernel);
    const bool busy = named.kernel->state() == sandbox::Kernel::State::busy || (hub && hub->busy());
    if (!busy && !(hub && hub->last_activity() > now)) co_await remove(std::move(named));
  }
}

}  // namespace cove::doors::jupyter
