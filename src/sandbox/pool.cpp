#include "sandbox/pool.hpp"

#include <algorithm>
#include <set>

#include "async/deadline.hpp"
#include "base/clock.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAfterFailure{1000};
constexpr milliseconds kAfterTaking{10};  // lets the taker be answered first
constexpr std::size_t kTenantStart = 2;   // on a tenant's shelf at first

bool same(const jail::Limits& a, const jail::Limits& b) {
  return a.memory_bytes == b.memory_bytes && a.disk_bytes == b.disk_bytes && a.inodes == b.inodes && a.pids == b.pids &&
         a.cpu_millis == b.cpu_millis;
}

}  // namespace

void Pool::open(Options options) {
  age_ = options.age;
  tenant_bound_ = options.tenant_bound;
  tenant_idle_ = options.tenant_idle;
  for (auto& shelf : shelves_) shelf.kind.size = 0;
  for (auto& kind : options.kinds) {
    const auto known = std::ranges::find_if(shelves_, [&](const Shelf& shelf) {
      return same(shelf.kind.limits, kind.limits) && shelf.kind.content == kind.content;
    });
    // Two kinds may be alike: then there are as many as both want.
    if (known != shelves_.end())
      known->kind.size += kind.size;
    else
      shelves_.push_back({.kind = std::move(kind)});
  }
  for (auto& shelf : of_tenants_) shelf.kind.size = 0;
  tick();
}

async::Task<> Pool::close() {
  ++era_;
  tenant_bound_ = 0;
  std::vector<std::shared_ptr<Sandbox>> ended;
  each_shelf([&](Shelf& shelf) {
    shelf.kind.size = 0;
    for (auto& sandbox : std::exchange(shelf.ready, {})) ended.push_back(std::move(sandbox));
  });
  for (const auto& sandbox : ended) co_await sandbox->discard();
  const auto filling = [this] {
    bool any = false;
    each_shelf([&](const Shelf& shelf) { any = any || shelf.filling; });
    return any;
  };
  while (filling()) co_await async::sleep_for(milliseconds(2));
}

void Pool::abandon() {
  ++era_;
  each_shelf([&](Shelf& shelf) {
    for (auto& sandbox : std::exchange(shelf.ready, {})) throw_away(std::move(sandbox));
  });
}

void Pool::throw_away(std::shared_ptr<Sandbox> sandbox) {
  tasks_.spawn("throw away a sandbox", end_of(std::move(sandbox)));
}

async::Task<> Pool::end_of(std::shared_ptr<Sandbox> sandbox) {
  co_await sandbox->discard();
}

std::shared_ptr<Sandbox> Pool::pop(Shelf& shelf) {
  std::shared_ptr<Sandbox> taken;
  while (!taken && !shelf.ready.empty()) {
    taken = std::move(shelf.ready.front());
    shelf.ready.pop_front();
    if (!taken->answers()) throw_away(std::exchange(taken, nullptr));
  }
  return taken;
}

std::shared_ptr<Sandbox> Pool::take_from(Shelf& shelf) {
  auto taken = pop(shelf);
  ++(taken ? shelf.hits : shelf.misses);
  tick();
  return taken;
}

Pool::Shelf& Pool::shelf_of(const std::string& tenant, const PoolKind& kind) {
  for (auto& shelf : of_tenants_) {
    if (shelf.tenant == tenant && shelf.kind.content == kind.content && same(shelf.kind.limits, kind.limits))
      return shelf;
  }
  auto& added = of_tenants_.emplace_back(Shelf{.kind = kind, .tenant = tenant});
  added.kind.size = 0;
  return added;
}

// A shelf grows with what its tenant asks for in vain.
std::shared_ptr<Sandbox> Pool::take_of(const std::string& tenant, Shelf& common) {
  if (tenant_bound_ == 0) return nullptr;
  auto& shelf = shelf_of(tenant, common.kind);
  auto taken = pop(shelf);
  ++(taken ? common.tenant_hits : common.tenant_misses);
  for (auto& own : of_tenants_) {
    if (own.tenant == tenant) own.used = std::chrono::steady_clock::now();
  }
  if (!taken) shelf.kind.size = std::min(common.kind.size, std::max(kTenantStart, shelf.kind.size + 1));
  keep_bound(shelf);
  tick();
  return taken;
}

void Pool::keep_bound(const Shelf& for_whom) {
  const auto all = [this] {
    std::size_t sum = 0;
    for (const auto& shelf : of_tenants_) sum += shelf.kind.size;
    return sum;
  };
  while (all() > tenant_bound_) {
    Shelf* loser = nullptr;
    for (auto& shelf : of_tenants_) {
      const bool has = shelf.kind.size > 0 && shelf.tenant != for_whom.tenant;
      if (has && (loser == nullptr || shelf.used < loser->used)) loser = &shelf;
    }
    if (loser == nullptr) {
      // Its own are all there are.
      loser = &*std::ranges::max_element(of_tenants_, {}, [](const Shelf& shelf) { return shelf.kind.size; });
    }
    --loser->kind.size;
    tidy(*loser);
  }
}

std::size_t Pool::ready_for_tenants(const PoolKind& kind) const {
  std::size_t count = 0;
  for (const auto& shelf : of_tenants_) count += shelf.kind.name == kind.name ? shelf.ready.size() : 0;
  return count;
}

std::size_t Pool::tenants() const {
  std::set<std::string_view> names;
  for (const auto& shelf : of_tenants_) names.insert(shelf.tenant);
  return names.size();
}

std::shared_ptr<Sandbox> Pool::take(const jail::Limits& limits, Content content, const std::string& tenant) {
  for (auto& shelf : shelves_) {
    const auto& kind = shelf.kind;
    if (kind.size == 0 || kind.content != content || !same(kind.limits, limits)) continue;
    return tenant.empty() ? take_from(shelf) : take_of(tenant, shelf);
  }
  return nullptr;
}

std::shared_ptr<Sandbox> Pool::take_similar(const jail::Limits& limits) {
  for (auto& shelf : shelves_) {
    const auto& kind = shelf.kind;
    // Inodes are fixed, and the share of the processors decides which cores a sandbox has.
    const bool similar = kind.limits.inodes == limits.inodes && kind.limits.cpu_millis == limits.cpu_millis;
    if (kind.content == Content::nothing && similar && !shelf.ready.empty()) return take_from(shelf);
  }
  return nullptr;
}

bool Pool::lose(std::string_view id) {
  bool lost = false;
  each_shelf([&](Shelf& shelf) {
    const auto found = std::ranges::find_if(shelf.ready, [&](const auto& sandbox) { return sandbox->row().id == id; });
    if (found == shelf.ready.end()) return;
    throw_away(*found);
    shelf.ready.erase(found);
    lost = true;
  });
  if (lost) tick();
  return lost;
}

milliseconds Pool::oldest(const Shelf& shelf) const {
  return shelf.ready.empty() ? milliseconds(0)
                             : milliseconds(unix_millis() - shelf.ready.front()->row().created_unix_ms);
}

void Pool::tidy(Shelf& shelf) {
  while (!shelf.ready.empty() && (oldest(shelf) > age_ || shelf.ready.size() > shelf.kind.size)) {
    throw_away(std::move(shelf.ready.front()));
    shelf.ready.pop_front();
  }
}

void Pool::tidy_tenants() {
  const auto since = std::chrono::steady_clock::now() - tenant_idle_;
  for (auto& shelf : of_tenants_) {
    if (shelf.used < since) shelf.kind.size = 0;
  }
  of_tenants_.remove_if(
      [](const Shelf& shelf) { return shelf.kind.size == 0 && shelf.ready.empty() && !shelf.filling; });
}

void Pool::tick() {
  each_shelf([&](Shelf& shelf) {
    tidy(shelf);
    if (shelf.ready.size() < shelf.kind.size && !std::exchange(shelf.filling, true))
      tasks_.spawn("fill the pool", fill(*this, shelf));
  });
}

async::Task<bool> Pool::make_ready(std::shared_ptr<Sandbox> sandbox, Content content) {
  if (!co_await sandbox->create()) co_return false;
  sandbox->set_state(State::running);
  if (content == Content::nothing) co_return true;
  const auto use = content == Content::kernel          ? SpareUse::kernel
                   : content == Content::light_program ? SpareUse::light_program
                                                       : SpareUse::program;
  co_return (co_await sandbox->keep_python_ready(use)).has_value();
}

// One at a time: who waits for a sandbox now comes before who may want one later.
async::Task<> Pool::fill(Pool& pool, Shelf& shelf) {
  while (shelf.ready.size() < shelf.kind.size) {
    if (shelf.ready.size() * 2 >= shelf.kind.size) {
      co_await async::sleep_for(kAfterTaking);
      if (shelf.ready.size() >= shelf.kind.size) break;  // it was closed: what is made now nobody would end
    }
    const auto era = pool.era_;
    const auto sandbox = pool.make_(shelf.kind, shelf.tenant);
    const bool made = co_await make_ready(sandbox, shelf.kind.content);
    if (made && era == pool.era_) {
      shelf.ready.push_back(sandbox);
      continue;
    }
    co_await sandbox->discard();
    // Its tenant's zygote is not there yet, or there are too many: tried again when the tenant asks again.
    if (!made && !shelf.tenant.empty()) shelf.kind.size = 0;
    if (!made) co_await async::sleep_for(kAfterFailure);
  }
  shelf.filling = false;
}

}  // namespace cove::sandbox
