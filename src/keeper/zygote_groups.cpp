#include "keeper/zygote_groups.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <iterator>

namespace cove::keeper {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMaxGroups = 8;         // each about a hundred megabytes; and as many light ones, of thirty
constexpr std::chrono::minutes kIdleTime{5};  // after the last birth of a group

}  // namespace

void ZygoteGroups::open(MakePlan make_plan) {
  if (options_.births == 0) return;
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  make_plan_ = std::move(make_plan);
  find_or_start({});
}

void ZygoteGroups::close() {
  make_plan_ = {};
  for (auto& [key, group] : groups_) group.zygotes.close();
}

void ZygoteGroups::retire(std::uint32_t root) {
  for (auto it = groups_.lower_bound({.root = root}); it != groups_.end() && it->first.root == root;) {
    it->second.zygotes.close();
    it = groups_.erase(it);
  }
}

bool ZygoteGroups::evict_idle(std::uint32_t light) {
  const auto same = [&](const auto& entry) { return entry.first.light == light; };
  if (std::ranges::count_if(groups_, same) < static_cast<std::ptrdiff_t>(kMaxGroups)) return true;
  auto oldest = groups_.end();
  for (auto it = groups_.begin(); it != groups_.end(); ++it) {
    if (!same(*it)) continue;
    const bool used = it->first == Key() || Clock::now() - it->second.last_asked < kIdleTime;
    if (!used && (oldest == groups_.end() || it->second.last_asked < oldest->second.last_asked)) oldest = it;
  }
  if (oldest == groups_.end()) return false;
  oldest->second.zygotes.close();
  groups_.erase(oldest);
  return true;
}

ZygoteGroups::Group* ZygoteGroups::find_or_start(Key key) {
  const auto found = groups_.find(key);
  if (found != groups_.end()) return &found->second;
  if (!make_plan_) return nullptr;
  auto plan = make_plan_(key.root);
  if (!plan || !evict_idle(key.light)) return nullptr;
  const auto weight = key.light != 0 ? ZygoteGroup::Weight::light : ZygoteGroup::Weight::full;
  auto& group = groups_.emplace(key, Group{.zygotes = ZygoteGroup(options_, weight)}).first->second;
  group.zygotes.open(std::move(*plan));
  epoll_event event{.events = EPOLLIN, .data = {.u32 = key.number}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, group.zygotes.fd(), &event);
  return &group;
}

// A template says itself what its zygotes load.
bool ZygoteGroups::light_serves(Key key) {
  if (key.light == 0 || key.root != 0 || !options_.light) return false;
  auto* group = find_or_start(key);
  return group != nullptr && group->zygotes.serves();
}

Result<> ZygoteGroups::request_birth(Key key, ZygoteGroup::Request request) {
  key.light = light_serves(key) ? 1 : 0;
  auto* group = find_or_start(key);
  if (group == nullptr) return fail(Errc::unavailable, "no zygote group can be started: all are in use");
  group->last_asked = Clock::now();
  return group->zygotes.request_birth(std::move(request));
}

std::vector<ZygoteGroup::BirthResult> ZygoteGroups::collect_births() {
  std::vector<ZygoteGroup::BirthResult> all;
  for (auto& [key, group] : groups_) std::ranges::move(group.zygotes.collect_births(), std::back_inserter(all));
  return all;
}

int ZygoteGroups::wait_millis() const {
  int due = -1;
  for (const auto& [key, group] : groups_) {
    const int wait = group.zygotes.wait_millis();
    if (wait >= 0) due = due < 0 ? wait : std::min(due, wait);
  }
  return due;
}

}  // namespace cove::keeper
