#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace cove {

inline constexpr std::size_t kClientName = 120;

// Who sent a request: a tenant, and the key or token that proved it. The default is the one tenant of an open server.
struct Principal {
  std::string tenant = "default";
  std::string key_id;
  bool in_scope = true;                                               // the token's scopes cover this server
  std::optional<std::chrono::system_clock::time_point> expires = {};  // of the token, if it does
  std::string door = {};                                              // the API that the request came by
  std::string client = {};  // what the client calls itself; one line of at most kClientName bytes
};

}  // namespace cove
