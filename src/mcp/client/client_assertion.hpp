#pragma once

#include <string>

#include "base/result.hpp"
#include "mcp/client/server_config.hpp"

namespace cove::mcp::client {

// Says who we are, signed with the configured key (RFC 7523), for `audience` alone and a few minutes.
Result<std::string> client_assertion(const Credentials& credentials, const std::string& audience);

// SHA-256, as PKCE wants the challenge of a verifier.
std::string pkce_challenge(const std::string& verifier);

}  // namespace cove::mcp::client
