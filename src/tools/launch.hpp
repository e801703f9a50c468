#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/principal.hpp"
#include "mcp/client/pipes.hpp"
#include "sandbox/core.hpp"

namespace cove::tools {

// Starts stdio servers as processes of this sandbox, which they do not keep.
mcp::client::Launch launch_inside(std::weak_ptr<sandbox::Sandbox> sandbox);
// Starts each in a new sandbox with this network policy, which ends with it. `core` is borrowed.
mcp::client::Launch launch_in_own_sandbox(sandbox::Core& core, Principal principal, std::string network_json);

}  // namespace cove::tools
