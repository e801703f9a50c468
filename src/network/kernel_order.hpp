#pragma once

#include <memory>
#include <vector>

#include "async/task.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "egress/policy.hpp"
#include "sandbox/sandbox.hpp"
#include "wire/network_records.hpp"

namespace cove::network {

// The sockets that were made in a sandbox's network.
struct Sockets {
  UniqueFd relay;
  UniqueFd relay6;  // a copy of the other where the kernel has no IPv6
  UniqueFd dns;
  UniqueFd dns_tcp;
  UniqueFd proxy;  // empty: its port is taken inside
};

// Has the keeper set up the kernel's side of a policy in the sandbox's network. Errc::over_limit when it has more
// targets than an order holds.
async::Task<Result<Sockets>> order_ways(std::shared_ptr<sandbox::Sandbox> sandbox, egress::Policy policy,
                                        wire::NetworkSockets sockets);
// No way out at all.
async::Task<Result<>> order_no_ways(std::shared_ptr<sandbox::Sandbox> sandbox);

}  // namespace cove::network
