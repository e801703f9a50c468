#pragma once

#include "async/task.hpp"
#include "keeper/keeper.hpp"
#include "server/services.hpp"

namespace cove::server {

// Restores what a previous server left: stored files, callbacks, executions, sandboxes with their processes and
// kernels. A part that cannot be restored is logged and skipped. Returns when requests may be served.
async::Task<> restore(Services& services, keeper::KeeperLink keeper);

}  // namespace cove::server
