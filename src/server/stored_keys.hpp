#pragma once

#include "server/front_home.hpp"

namespace cove::server {

// Whether the database has API keys.
enum class StoredKeys { none, active, revoked, unreadable };

// Reads the front's database in a process without rights: a front that was taken over can write what it likes there.
StoredKeys stored_keys(const FrontHome& home);

}  // namespace cove::server
