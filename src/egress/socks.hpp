#pragma once

#include <memory>
#include <string>

#include "async/task.hpp"
#include "egress/flow.hpp"

namespace cove::egress {

class SandboxEgress;

// SOCKS 5 (RFC 1928) without authentication, CONNECT alone; names are resolved outside (socks5h). `begun`: what the
// client has sent so far, at least the first byte.
async::Task<> serve_socks(std::shared_ptr<SandboxEgress> egress, std::shared_ptr<Flow> flow, std::string begun);

}  // namespace cove::egress
