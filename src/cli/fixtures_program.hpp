#pragma once

#include "config/config.hpp"

namespace cove::cli {

// The MCP conformance fixtures are not in this program, but in `cove-mcp-fixtures` beside it. Where the configuration
// asks for them (mcp.fixtures), becomes that program, with the same arguments; returns where there is nothing to do.
// Errc::not_found when it is not there.
Result<> use_fixtures_program(const config::Config& config);

}  // namespace cove::cli
