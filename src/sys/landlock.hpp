#pragma once

#include <cstdint>
#include <span>

namespace cove::sys {

// What a path and everything below it may be used for.
enum class PathUse : std::uint8_t {
  execute,   // read, list, run
  write,     // everything that makes sense for data: create, change, rename, remove, run
  device,    // read and write existing character devices, no ioctl
  terminal,  // devices with their ioctls
};

struct PathRule {
  const char* path;
  PathUse use;
};

// The Landlock version of the running kernel; 0 when there is none.
int landlock_abi() noexcept;

// Whom one may signal: those in the same Landlock domain, or whom the other locks allow. Processes that come into a
// sandbox by different ways are in different domains.
enum class SignalScope : std::uint8_t { own_domain, unscoped };

// Confines this thread for good: file access to `rules`, no abstract socket of anyone outside. Paths that do not exist
// are skipped. Handles every right of the running ABI. Needs no_new_privs. Usable between fork and
// exec.
bool restrict_with_landlock(std::span<const PathRule> rules, int abi, SignalScope signals) noexcept;

}  // namespace cove::sys
