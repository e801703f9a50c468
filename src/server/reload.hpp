#pragma once

#include "base/unique_fd.hpp"
#include "server/services.hpp"

namespace cove::server {

// Reads the configuration again, with the content of its file from `file` as the supervisor sent it, and applies what
// can change while the server runs. An invalid configuration is logged, and the
// old one stays.
void reload(Services& services, UniqueFd file);

}  // namespace cove::server
