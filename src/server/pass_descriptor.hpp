#pragma once

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace cove::server {

// One descriptor over a SOCK_SEQPACKET pair. Receiving fails when the other side is gone.
Result<> send_descriptor(int socket, int fd);
Result<UniqueFd> receive_descriptor(int socket);

}  // namespace cove::server
