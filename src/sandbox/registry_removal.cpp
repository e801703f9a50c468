// How sandboxes leave the registry.
#include <algorithm>

#include "async/deadline.hpp"
#include "sandbox/registry.hpp"
#include "sandbox/tool_calls.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRetryInterval{500};
constexpr std::size_t kMaxNamed = 10;

}  // namespace

async::Task<Result<>> Registry::remove_template(std::string name) {
  const auto leaves = [&](const auto& entry) { return entry.second->row().template_name == name; };
  while (std::ranges::any_of(leaving_, leaves)) co_await left_.wait();
  std::string users;
  std::size_t count = 0;
  for (const auto& sandbox : all()) {
    if (sandbox->row().template_name != name || sandbox->state() == State::gone) continue;
    if (++count <= kMaxNamed) users += (users.empty() ? "" : ", ") + sandbox->name();
  }
  if (count > kMaxNamed) users += fmt::format(" and {} more", count - kMaxNamed);
  if (count > 0) co_return fail(Errc::conflict, fmt::format("template {} is in use by sandboxes: {}", name, users));
  const auto retired = templates_.retire(name);
  if (!retired) co_return tl::unexpected<Error>(retired.error());
  const wire::KeeperRequest request{.verb = wire::KeeperVerb::retire_template, .root = retired->number};
  // A keeper that is gone has no zygotes either.
  [[maybe_unused]] const auto told = co_await keeper_.ask(request);
  co_return co_await templates_.remove(std::move(name));
}

async::Task<> Registry::forget_later(std::string id) {
  log_(fmt::format("cannot forget sandbox={} now", id));
  while (!store_.sandboxes().erase(id)) co_await async::sleep_for(kRetryInterval);
}

// What the kernel has not taken apart yet counts in the quotas, and keeps its template.
async::Task<> Registry::dismantle(std::shared_ptr<Sandbox> sandbox) {
  co_await sandbox->dismantle();
  leaving_.erase(sandbox->row().id);
  left_.notify_all();
}

async::Task<> Registry::remove(std::shared_ptr<Sandbox> sandbox, std::string why, journal::Actor actor) {
  if (sandbox->state() == State::deleting || sandbox->state() == State::gone) {
    while (sandbox->state() != State::gone) co_await sandbox->changed().wait();
    co_return;
  }
  sandbox->set_state(State::deleting);
  co_await finish_removal(std::move(sandbox), std::move(why), std::move(actor));
}

void Registry::remove_later(std::shared_ptr<Sandbox> sandbox, std::string why) {
  if (sandbox->state() == State::deleting || sandbox->state() == State::gone) return;
  sandbox->set_state(State::deleting);
  tasks_.spawn("remove a sandbox", finish_removal(std::move(sandbox), std::move(why), {}));
}

async::Task<> Registry::finish_removal(std::shared_ptr<Sandbox> sandbox, std::string why, journal::Actor actor) {
  // If this cannot be written the row still says "running", and a restart in this moment finds the sandbox gone.
  const bool written = sandbox->purpose() == Purpose::named;
  if (written) [[maybe_unused]]
    const auto marked = store_.sandboxes().set_state(sandbox->row().id, "deleting");
  co_await sandbox->kill();
  // Nobody can reach it: its name is free. A row that cannot be erased now is erased later, or at the next start.
  if (written && !store_.sandboxes().erase(sandbox->row().id))
    tasks_.spawn("forget a sandbox", forget_later(sandbox->row().id));
  by_name_.erase(Key(sandbox->tenant(), sandbox->name()));
  by_id_.erase(sandbox->row().id);
  leaving_.emplace(sandbox->row().id, sandbox);
  tasks_.spawn("take a sandbox apart", dismantle(sandbox));
  inherited_.erase(sandbox->row().id);
  kernels_.forget(*sandbox);
  if (networking_ != nullptr) networking_->forget(sandbox->row().id);
  if (context_.tool_calls != nullptr) context_.tool_calls->forget(sandbox->row().id);
  sandbox->changed().notify_all();
  if (why != "failed") {
    ++counters_.deleted;
    publish("deleted", *sandbox, fmt::format(R"({{"why": "{}"}})", why), actor);
  }
}

}  // namespace cove::sandbox
