#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "async/task.hpp"
#include "egress/flow.hpp"

namespace cove::egress {

class SandboxEgress;

// Waits until the caps let a piece of so many bytes pass as a whole, and counts it. False: they never will, and the
// flow was cut.
async::Task<bool> spend(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::size_t bytes);

// Moves the bytes of a flow that was dialled, both ways at once, until both sides have ended theirs; within the caps.
// What one side does not take the other is not asked for. What the server says first passes at once; what the client
// says first is looked at before it passes: with `check_sni`, TLS must mean the host that the flow is for, and port 443
// of a name must speak TLS. `first`: what the client has sent already.
async::Task<> carry(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::string first);

}  // namespace cove::egress
