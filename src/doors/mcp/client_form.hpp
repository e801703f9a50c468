#pragma once

#include "mcp/call.hpp"

namespace cove::doors::mcp {

// Clients that send no `initialize`, and those of 2024-11-05: scripts written for the reference servers, which read
// answers, lists of tools and default sessions exactly as those had them.
inline bool reads_old_form(const cove::mcp::Call& call) {
  return call.bare || call.revision == cove::mcp::kOldest;
}

}  // namespace cove::doors::mcp
