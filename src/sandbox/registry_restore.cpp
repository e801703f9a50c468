// What happens when a server starts, and when its keeper was replaced.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "sandbox/registry.hpp"

namespace cove::sandbox {

async::Task<Result<>> Registry::restore(keeper::KeeperLink link) {
  if (auto loaded = templates_.load(); !loaded) co_return loaded;
  if (auto loaded = load_sandboxes(); !loaded) co_return loaded;
  unlink_stale_sockets();
  loaded_ = true;
  co_return co_await hand_over(std::move(link));
}

async::Task<Result<>> Registry::replace_keeper(keeper::KeeperLink link) {
  if (!loaded_) co_return co_await restore(std::move(link));
  pool_.abandon();
  co_return co_await hand_over(std::move(link));
}

// Sandboxes of an earlier boot are gone; the keeper sweeps those that were half created or half deleted.
Result<> Registry::load_sandboxes() {
  COVE_TRY(auto rows, store_.sandboxes().all());
  for (auto& row : rows) {
    if (row.boot_id != boot_id_ || row.state == "creating" || row.state == "deleting") {
      COVE_CHECK(store_.sandboxes().erase(row.id));
      ::unlinkat(context_.run_dir, row.id.c_str(), 0);
      continue;
    }
    const auto sandbox = std::make_shared<Sandbox>(context_, std::move(row));
    inherited_.insert(sandbox->row().id);
    by_name_.emplace(Key(sandbox->tenant(), sandbox->name()), sandbox);
    by_id_.emplace(sandbox->row().id, sandbox);
  }
  return {};
}

void Registry::unlink_stale_sockets() {
  const int copy = ::openat(context_.run_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : ::fdopendir(copy),
                                                    [](DIR* d) { return ::closedir(d); });
  while (const auto* entry = entries ? ::readdir(entries.get()) : nullptr) {
    if (entry->d_name[0] != '.' && !by_id_.contains(entry->d_name)) ::unlinkat(context_.run_dir, entry->d_name, 0);
  }
}

// Hands every sandbox to the keeper, lets it sweep the others, and sends it the waiting requests.
async::Task<Result<>> Registry::hand_over(keeper::KeeperLink link) {
  keeper_.connect(std::move(link));
  for (const auto& sandbox : all()) {
    // A sandbox that was not created yet is requested again by its caller; the keeper does not know it.
    const bool inherited = inherited_.contains(sandbox->row().id);
    const bool unmade = sandbox->state() == State::creating && sandbox->row().init_pid == 0;
    if (!inherited && (unmade || sandbox->state() == State::gone)) continue;
    Result<> adopted;
    if (inherited)
      adopted = co_await adopt_inherited(sandbox);
    else
      adopted = co_await sandbox->adopt_into_keeper();
    if (adopted) continue;
    if (adopted.error().code == Errc::unavailable && keeper_.lost()) co_return adopted;  // the new keeper died too
    if (sandbox->state() != State::deleting) give_up(sandbox, adopted.error());
  }
  const wire::KeeperRequest sweep{.verb = wire::KeeperVerb::sweep};
  auto swept = co_await keeper_.ask_directly(sweep);
  if (!swept) co_return tl::unexpected<Error>(swept.error());
  keeper_.open();
  co_return Result<>();
}

// Takes over a sandbox of the previous server, with its processes and kernels.
async::Task<Result<>> Registry::adopt_inherited(std::shared_ptr<Sandbox> sandbox) {
  if (auto adopted = co_await sandbox->adopt_into_keeper(); !adopted) co_return adopted;
  // A sandbox that is being deleted needs no connection.
  if (sandbox->state() == State::creating) {
    if (context_.tool_calls != nullptr) context_.tool_calls->adopt(sandbox);
    if (auto connected = co_await sandbox->reconnect(); !connected) co_return connected;
    inherited_.erase(sandbox->row().id);
  }
  ++counters_.adopted;
  kernels_.adopt(sandbox);
  co_return Result<>();
}

void Registry::give_up(const std::shared_ptr<Sandbox>& sandbox, const Error& error) {
  log_(fmt::format("lost sandbox={} pod={} reason=\"{}\"", sandbox->row().id, sandbox->row().pod_name, error.message));
  ++counters_.lost;
  publish("lost", *sandbox);
  tasks_.spawn("remove a lost sandbox", remove(sandbox, "lost"));
}

}  // namespace cove::sandbox
