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

void Lines::open(jail::Plan plan) {
  if (options_.births == 0) return;
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  plan_.emplace(std::move(plan));
  find_or_open(0);
}

void Lines::close() {
  plan_.reset();
  for (auto& [number, line] : lines_) line.nursery.close();
}

bool Lines::make_room() {
  if (lines_.size() < kMost) return true;
  auto oldest = lines_.end();
  for (auto it = lines_.begin(); it != lines_.end(); ++it) {
    const bool used = it->first == 0 || Clock::now() - it->second.asked < kKept;
    if (!used && (oldest == lines_.end() || it->second.asked < oldest->second.asked)) oldest = it;
  }
  if (oldest == lines_.end()) return false;
  oldest->second.nursery.close();
  lines_.erase(oldest);
  return true;
}

Lines::Line* Lines::find_or_open(std::uint32_t number) {
  const auto found = lines_.find(number);
  if (found != lines_.end()) return &found->second;
  if (!plan_ || !make_room()) return nullptr;
  auto& line = lines_.emplace(number, Line{.nursery = Nursery(options_)}).first->second;
  line.nursery.open(*plan_);
  epoll_event event{.events = EPOLLIN, .data = {.u32 = number}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, line.nursery.fd(), &event);
  return &line;
}

Result<> Lines::ask(std::uint32_t number, Nursery::Request request) {
  auto* line = find_or_open(number);
  if (line == nullptr) return fail(Errc::unavailable, "there is no zygote, and no room for one");
  line->asked = Clock::now();
  return line->nursery.ask(std::move(request));
}

std::vector<Nursery::Done> Lines::turn() {
  std::vector<Nursery::Done> all;
  for (auto& [number, line] : lines_) std::ranges::move(line.nursery.turn(), std::back_inserter(all));
  return all;
}

int Lines::wait_millis() const {
  int due = -1;
  for (const auto& [number, line] : lines_) {
    const int wait = line.nursery.wait_millis();
    if (wait >= 0) due = due < 0 ? wait : std::min(due, wait);
  }
  return due;
}

}  // namespace cove::keeper
