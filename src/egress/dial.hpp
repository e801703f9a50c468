#pragma once

#include <chrono>
#include <memory>

#include "async/task.hpp"
#include "base/result.hpp"
#include "egress/flow.hpp"
#include "egress/policy.hpp"

namespace cove::egress {

class SandboxEgress;

// For whoever asked: what was refused, by which rule, and how it is allowed.
std::string denied_sentence(const Flow& flow, const Policy& policy);

// Judges where a flow is meant to go and connects its outer socket: a name first as a name, then each of its addresses,
// and only those that were judged are dialled, one after the other. Decisions are recorded. Errc::denied: the policy
// says no; Errc::unavailable, Errc::not_found: it cannot be reached. The message is a sentence for whoever asked.
async::Task<Result<>> dial(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow,
                           std::chrono::steady_clock::time_point until);

}  // namespace cove::egress
