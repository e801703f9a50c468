#include "keeper/cores.hpp"

#include <algorithm>

namespace cove::keeper {

CoreShare& CoreShare::operator=(CoreShare&& other) noexcept {
  if (this != &other) {
    give_back();
    from_ = std::exchange(other.from_, nullptr);
    set_ = other.set_;
  }
  return *this;
}

void CoreShare::give_back() {
  if (from_ != nullptr) from_->change(set_, -1);
  from_ = nullptr;
}

Cores::Cores(const cpu_set_t& usable) {
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    if (CPU_ISSET(static_cast<std::size_t>(number), &usable)) cores_.push_back({.number = number});
  }
}

Cores Cores::of_this_process() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  // A host with more cores than a set can hold has enough of them not to count.
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) CPU_ZERO(&usable);
  return Cores(usable);
}

CoreShare Cores::take(std::uint32_t cpu_millis) {
  const std::size_t wanted = std::max(1U, (cpu_millis + 999) / 1000);
  if (wanted >= cores_.size()) return {};
  std::ranges::rotate(cores_, cores_.begin() + 1);  // of equals not always the same is taken
  std::vector<std::pair<std::uint32_t, std::size_t>> order;
  for (std::size_t i = 0; i < cores_.size(); ++i) order.emplace_back(cores_[i].sandboxes, i);
  std::ranges::sort(order);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (std::size_t i = 0; i < wanted; ++i) CPU_SET(static_cast<std::size_t>(cores_[order[i].second].number), &set);
  change(set, 1);
  return {*this, set};
}

void Cores::change(const cpu_set_t& set, int by) {
  for (auto& core : cores_) {
    if (CPU_ISSET(static_cast<std::size_t>(core.number), &set)) core.sandboxes += static_cast<std::uint32_t>(by);
  }
}

}  // namespace cove::keeper
