#include "sandbox/pool.hpp"

#include <algorithm>

#include "async/deadline.hpp"
#include "base/clock.hpp"

namespace cove::sandbox {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kAfterFailure{1000};
constexpr milliseconds kAfterTaking{10};  // lets the taker be answered first

bool same(const jail::Limits& a, const jail::Limits& b) {
  return a.memory_bytes == b.memory_bytes && a.disk_bytes == b.disk_bytes && a.inodes == b.inodes && a.pids == b.pids &&
         a.cpu_millis == b.cpu_millis;
}

}  // namespace

void Pool::open(Options options) {
  age_ = options.age;
  for (auto& shelf : shelves_) shelf.kind.size = 0;
  for (auto& kind : options.kinds) {
    const auto known = std::ranges::find_if(shelves_, [&](const Shelf& shelf) {
      return same(shelf.kind.limits, kind.limits) && shelf.kind.python == kind.python;
    });
    // Two kinds may be alike: then there are as many as both want.
    if (known != shelves_.end())
      known->kind.size += kind.size;
    else
      shelves_.push_back({.kind = std::move(kind)});
  }
  tick();
}

async::Task<> Pool::close() {
  for (auto& shelf : shelves_) shelf.kind.size = 0;
  ++era_;
  std::vector<std::shared_ptr<Sandbox>> ended;
  for (auto& shelf : shelves_) {
    for (auto& sandbox : std::exchange(shelf.ready, {})) ended.push_back(std::move(sandbox));
  }
  for (const auto& sandbox : ended) co_await sandbox->discard();
  const auto filling = [this] {
    return std::ranges::any_of(shelves_, [](const Shelf& shelf) { return shelf.filling; });
  };
  while (filling()) co_await async::sleep_for(milliseconds(2));
}

void Pool::abandon() {
  ++era_;
  for (auto& shelf : shelves_) {
    for (auto& sandbox : std::exchange(shelf.ready, {})) throw_away(std::move(sandbox));
  }
}

void Pool::throw_away(std::shared_ptr<Sandbox> sandbox) {
  tasks_.spawn("throw away a sandbox", end_of(std::move(sandbox)));
}

async::Task<> Pool::end_of(std::shared_ptr<Sandbox> sandbox) {
  co_await sandbox->discard();
}

std::shared_ptr<Sandbox> Pool::take(const jail::Limits& limits, bool python) {
  for (auto& shelf : shelves_) {
    if (shelf.kind.size == 0 || !same(shelf.kind.limits, limits) || shelf.kind.python != python) continue;
    std::shared_ptr<Sandbox> taken;
    while (!taken && !shelf.ready.empty()) {
      taken = std::move(shelf.ready.front());
      shelf.ready.pop_front();
      if (!taken->answers()) throw_away(std::exchange(taken, nullptr));
    }
    ++(taken ? shelf.hits : shelf.misses);
    tick();
    return taken;
  }
  return nullptr;
}

bool Pool::lose(std::string_view id) {
  for (auto& shelf : shelves_) {
    const auto found = std::ranges::find_if(shelf.ready, [&](const auto& sandbox) { return sandbox->row().id == id; });
    if (found == shelf.ready.end()) continue;
    throw_away(*found);
    shelf.ready.erase(found);
    tick();
    return true;
  }
  return false;
}

milliseconds Pool::oldest(const Shelf& shelf) const {
  return shelf.ready.empty() ? milliseconds(0)
                             : milliseconds(unix_millis() - shelf.ready.front()->row().created_unix_ms);
}

void Pool::tick() {
  for (auto& shelf : shelves_) {
    while (!shelf.ready.empty() && (oldest(shelf) > age_ || shelf.ready.size() > shelf.kind.size)) {
      throw_away(std::move(shelf.ready.front()));
      shelf.ready.pop_front();
    }
    if (shelf.ready.size() < shelf.kind.size && !std::exchange(shelf.filling, true))
      tasks_.spawn("fill the pool", fill(*this, shelf));
  }
}

async::Task<bool> Pool::make_ready(std::shared_ptr<Sandbox> sandbox, bool python) {
  if (!co_await sandbox->create()) co_return false;
  sandbox->set_state(State::running);
  co_return !python || (co_await sandbox->keep_python_ready()).has_value();
}

// One at a time: who waits for a sandbox now comes before who may want one later.
async::Task<> Pool::fill(Pool& pool, Shelf& shelf) {
  while (shelf.ready.size() < shelf.kind.size) {
    if (!shelf.ready.empty()) {
      co_await async::sleep_for(kAfterTaking);
      if (shelf.ready.size() >= shelf.kind.size) break;  // it was closed: what is made now nobody would end
    }
    const auto era = pool.era_;
    const auto sandbox = pool.make_(shelf.kind.limits);
    const bool made = co_await make_ready(sandbox, shelf.kind.python);
    if (made && era == pool.era_) {
      shelf.ready.push_back(sandbox);
      continue;
    }
    co_await sandbox->discard();
    if (!made) co_await async::sleep_for(kAfterFailure);
  }
  shelf.filling = false;
}

}  // namespace cove::sandbox
