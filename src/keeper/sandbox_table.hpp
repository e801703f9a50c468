#pragma once

#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/id.hpp"
#include "jail/jail.hpp"
#include "jail/locks.hpp"
#include "jail/stage.hpp"
#include "keeper/cores.hpp"
#include "keeper/poller.hpp"
#include "sys/cgroup.hpp"
#include "wire/keeper_messages.hpp"

namespace cove::keeper {

// One sandbox as the keeper knows it.
struct Sandbox {
  using Clock = std::chrono::steady_clock;

  SandboxId id;
  std::uint32_t root = 0;
  std::uint32_t uid = 0;
  std::uint32_t device_set = 0;
  CoreShare cores;
  std::optional<sys::Cgroup> cgroup;
  jail::Jailed process;
  jail::Locks locks;  // for interpreters born into it later
  std::uint32_t create_serial = 0;
  std::uint32_t destroy_serial = 0;
  std::uint32_t kill_serial = 0;  // of a request that waits for the end of init
  bool running = false;           // every lock is on
  bool ending = false;            // destroy was requested, or the creation failed
  bool frozen = false;
  bool reaped = false;
  Clock::time_point lease_until{};  // of a frozen one
  Clock::time_point no_births_before{};
  // A v1 group reports an out-of-memory event before it counts the kill: the count is read again until then.
  std::optional<Clock::time_point> recheck_memory_until;
  jail::Report failure;

  // The answer to a `kill`, once init has ended: a SIGKILL that was sent may still be on its way, and the end of init
  // is the kernel's word that nothing runs in its namespace any more.
  std::optional<wire::KeeperReply> take_kill_answer();
  // Frozen, it may live for `lease` if no keeper comes after this one. Errc::unsupported where no control group can
  // freeze.
  Result<> freeze(std::chrono::milliseconds lease);
  Result<> thaw();
  // Kills everything in it. Reaping, and removing its group, come later.
  void kill();
};

// Every sandbox of this keeper, by a number of its own; their descriptors are in the poller while they are here.
class SandboxTable {
 public:
  explicit SandboxTable(Poller& poller) : poller_(poller) {}

  Sandbox& add(Sandbox sandbox);
  [[nodiscard]] Sandbox* find(const SandboxId& id);
  [[nodiscard]] Sandbox* find(std::uint32_t number);
  [[nodiscard]] bool empty() const { return sandboxes_.empty(); }

  // Reads how its creation went: nothing when every lock is on, else where it failed.
  std::optional<jail::Report> take_report(Sandbox& sandbox);
  void reap(Sandbox& sandbox);
  // Removes those for which `gone` says true.
  template <typename Gone>
  void remove_if(Gone gone) {
    for (auto it = sandboxes_.begin(); it != sandboxes_.end();)
      it = gone(it->second) ? sandboxes_.erase(it) : std::next(it);
  }

  [[nodiscard]] auto begin() { return sandboxes_.begin(); }
  [[nodiscard]] auto end() { return sandboxes_.end(); }
  [[nodiscard]] std::set<pid_t> inits() const;
  [[nodiscard]] std::set<std::string> groups() const;
  // Of `count` sets of device nodes one that no sandbox has. When all are taken the first is shared: the nodes are the
  // same, but a lock on one of them is then seen by both.
  [[nodiscard]] std::uint32_t free_device_set(std::uint32_t count) const;

 private:
  Poller& poller_;
  std::map<std::uint32_t, Sandbox> sandboxes_;
  std::uint32_t next_number_ = 1;
};

// Why one that never ran was not made.
Error creation_failure(const Sandbox& sandbox);

}  // namespace cove::keeper
