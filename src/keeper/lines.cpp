#include "keeper/lines.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <iterator>

namespace cove::keeper {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kMost = 8;          // each about a hundred megabytes
constexpr std::chrono::minutes kKept{5};  // after the last birth of a line

}  // namespace

void Lines::open(MakePlan make_plan) {
  if (options_.births == 0) return;
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  make_plan_ = std::move(make_plan);
  find_or_open({});
}

void Lines::close() {
  make_plan_ = {};
  for (auto& [key, line] : lines_) line.nursery.close();
}

void Lines::retire(std::uint32_t root) {
  for (auto it = lines_.lower_bound({.root = root}); it != lines_.end() && it->first.root == root;) {
    it->second.nursery.close();
    it = lines_.erase(it);
  }
}

bool Lines::make_room() {
  if (lines_.size() < kMost) return true;
  auto oldest = lines_.end();
  for (auto it = lines_.begin(); it != lines_.end(); ++it) {
    const bool used = it->first == Key() || Clock::now() - it->second.asked < kKept;
    if (!used && (oldest == lines_.end() || it->second.asked < oldest->second.asked)) oldest = it;
  }
  if (oldest == lines_.end()) return false;
  oldest->second.nursery.close();
  lines_.erase(oldest);
  return true;
}

Lines::Line* Lines::find_or_open(Key key) {
  const auto found = lines_.find(key);
  if (found != lines_.end()) return &found->second;
  if (!make_plan_) return nullptr;
  auto plan = make_plan_(key.root);
  if (!plan || !make_room()) return nullptr;
  auto& line = lines_.emplace(key, Line{.nursery = Nursery(options_)}).first->second;
  line.nursery.open(std::move(*plan));
  epoll_event event{.events = EPOLLIN, .data = {.u32 = key.number}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, line.nursery.fd(), &event);
  return &line;
}

Result<> Lines::ask(Key key, Nursery::Request request) {
  auto* line = find_or_open(key);
  if (line == nullptr) return fail(Errc::unavailable, "there is no zygote, and no room for one");
  line->asked = Clock::now();
  return line->nursery.ask(std::move(request));
}

std::vector<Nursery::Done> Lines::turn() {
  std::vector<Nursery::Done> all;
  for (auto& [key, line] : lines_) std::ranges::move(line.nursery.turn(), std::back_inserter(all));
  return all;
}

int Lines::wait_millis() const {
  int due = -1;
  for (const auto& [key, line] : lines_) {
    const int wait = line.nursery.wait_millis();
    if (wait >= 0) due = due < 0 ? wait : std::min(due, wait);
  }
  return due;
}

}  // namespace cove::keeper
