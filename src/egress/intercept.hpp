#pragma once

#include <memory>
#include <string>

#include "async/task.hpp"
#include "egress/flow.hpp"

namespace cove::egress {

class SandboxEgress;

// Whether requests of this flow get headers that the policy adds.
bool adds_headers(const SandboxEgress& egress, const Flow& flow);

// A flow that was dialled, to a name for which the policy adds headers: egress stands in for the server, in plain HTTP
// or TLS as the client begins, takes one request, and sends it on with its headers over plain HTTP or TLS as well.
// `begun`: what the client has sent already.
async::Task<> intercept(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::string begun);

}  // namespace cove::egress
