#pragma once

#include <functional>

#include "base/result.hpp"
#include "host/identity.hpp"

namespace cove::doctor {

// How a probe ended. `step` is a literal, so the parent of the fork can read it too; nullptr when all went well.
struct Outcome {
  const char* step = nullptr;
  int sys_errno = 0;  // 0: the kernel did not refuse, it did the wrong thing
};
inline Outcome failed(const char* step) {
  return {.step = step, .sys_errno = errno};
}

// Runs on the far side of a fork and is gone with it: whatever it mounts or locks leaves no trace.
using Probe = std::function<Outcome()>;

// In a child that is otherwise like us.
Result<> in_child(const Probe& probe);
// In a child in new namespaces of all seven kinds, with the ids a keeper would have, as its uid 0.
Result<> in_namespaces(const host::Identity& identity, const Probe& probe);

}  // namespace cove::doctor
