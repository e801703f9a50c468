#pragma once

#include <sched.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace cove::keeper {

class Cores;

// The cores of one sandbox; given back when it goes. Empty: it may use all.
class CoreShare {
 public:
  CoreShare() = default;
  CoreShare(Cores& from, cpu_set_t set) : from_(&from), set_(set) {}
  CoreShare(CoreShare&& other) noexcept : from_(std::exchange(other.from_, nullptr)), set_(other.set_) {}
  CoreShare& operator=(CoreShare&& other) noexcept;
  ~CoreShare() { give_back(); }

  [[nodiscard]] const cpu_set_t& set() const { return set_; }

 private:
  void give_back();

  Cores* from_ = nullptr;
  cpu_set_t set_{};
};

// The cores of this host that sandboxes may use. A sandbox with a limit of 1.5 processors gets two of them, those that
// the fewest others have: its programs count cores to know how many threads to start.
class Cores {
 public:
  explicit Cores(const cpu_set_t& usable);
  // Those that this process may use: a cpuset or taskset(1) may have left it fewer than the host has.
  static Cores of_this_process();
  Cores(const Cores&) = delete;
  Cores& operator=(const Cores&) = delete;

  // Empty when it would be all of them. Outlived by none of its shares.
  [[nodiscard]] CoreShare take(std::uint32_t cpu_millis);

 private:
  friend class CoreShare;
  struct Core {
    int number = 0;
    std::uint32_t sandboxes = 0;
  };
  void change(const cpu_set_t& set, int by);

  std::vector<Core> cores_;
};

}  // namespace cove::keeper
