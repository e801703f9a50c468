#pragma once

#include <string>

#include "base/result.hpp"
#include "config/config.hpp"

#include "server/front_home.hpp"

namespace cove::server {

// Whether the database has API keys.
enum class StoredKeys { none, active, revoked, unreadable };

// Reads the front's database in a process without rights: a front that was taken over can write what it likes there.
StoredKeys stored_keys(const FrontHome& home);

// The key set of [oauth], as text; "" when no tokens are accepted. Errc::invalid when it holds none.
Result<std::string> read_token_keys(const config::Config& config);

}  // namespace cove::server
