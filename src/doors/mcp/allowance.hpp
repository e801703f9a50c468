#pragma once

#include "doors/mcp/sessions.hpp"
#include "sandbox/admission.hpp"
#include "sandbox/lease.hpp"

namespace cove::doors::mcp {

// What a sandbox of ours may use.
jail::Limits sandbox_limits(const config::Config& config);
// What a tenant may have of them.
sandbox::Quotas sandbox_share(const Services& services, const cove::mcp::Call& call);
// The right to run something now, which is held while it runs. Waits for it as long as the call lasts.
Task<Result<sandbox::Admission::Ticket>> enter(Services& services, cove::mcp::Call& call);
// A sandbox for one piece of work.
Task<Result<sandbox::Lease>> borrow_sandbox(Services& services, const cove::mcp::Call& call);

}  // namespace cove::doors::mcp
