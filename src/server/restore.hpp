#pragma once

#include "async/task.hpp"
#include "keeper/keeper.hpp"
#include "server/services.hpp"

namespace cove::server {

// Brings back what the server before left: kept files, callbacks, executions, sandboxes with their processes and
// kernels. What cannot be brought back is logged and costs only itself. Returns when requests may be served.
async::Task<> restore(Services& services, keeper::KeeperLink keeper);

}  // namespace cove::server
