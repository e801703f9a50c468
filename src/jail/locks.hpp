#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "jail/stage.hpp"
#include "sys/landlock.hpp"

namespace cove::jail {

// The one user every sandbox has. 0 is not mapped: nothing inside can be root, and what the template holds belongs to
// nobody.
inline constexpr uid_t kInnerUid = 1000;
inline constexpr gid_t kInnerGid = 1000;

enum class TerminalSupport : std::uint8_t { none, available };

// The locks. Only a build made for the purpose can leave one off, to show what the others still stop
// (docs/threat-model.md).
enum Lock : unsigned { kNaming = 1, kSurface = 2, kObjects = 4 };
#ifdef COVE_TEST_LOCKS
unsigned locks_left_off() noexcept;  // from COVE_TEST_LOCKS_OFF in the keeper's environment
#else
constexpr unsigned locks_left_off() noexcept {
  return 0;
}
#endif

struct Rlimit {
  int resource = 0;
  rlimit value{};
};

// The last steps into a sandbox, the same for a program that will be exec'd and for an interpreter that was forked.
struct Locks {
  std::array<Rlimit, 10> rlimits{};
  std::size_t rlimit_count = 0;
  TerminalSupport terminal = TerminalSupport::none;
  sys::SignalScope signals = sys::SignalScope::own_domain;
  int landlock_abi = 0;
  int nice = 0;  // where no control group shares out the processor
  // The cores its programs see and run on; none: all. A convenience for runtimes that count them, not a wall: the
  // control group limits the time, and a program may choose other cores.
  cpu_set_t cores{};
};

// Puts them on the calling process for good: limits, no capabilities, no new privileges, Landlock, seccomp last. Stands
// in the sandbox's root. No allocation. Stage::none, or the step that failed and its errno.
Stage put_on(const Locks& locks) noexcept;
// Every signal as a new process has it, also those that libc keeps for itself and that whoever started us may ignore.
void default_signals() noexcept;
// Signal mask, umask, a session and a keyring of its own, no higher priority than anybody's.
bool reset_process() noexcept;

}  // namespace cove::jail
