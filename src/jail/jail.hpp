#pragma once

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "jail/plan.hpp"
#include "jail/stage.hpp"

namespace cove::jail {

struct Jailed {
  pid_t pid = -1;
  UniqueFd pidfd;
  // End of file here means that every lock is on and init runs; a Report means that it never will.
  UniqueFd report;
};

// Makes the namespaces and starts the walk to cove-init in them. Returns at once; `Jailed::report` tells how it went.
// The caller is single-threaded and lives in the keeper's own root. Everything in `plan` is borrowed until then.
Result<Jailed> start(const Plan& plan);

}  // namespace cove::jail
