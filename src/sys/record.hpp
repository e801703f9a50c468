#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "base/unique_fd.hpp"

namespace cove::sys {

// One record over a SOCK_SEQPACKET socket, with a descriptor beside it or without. As send(2) and recv(2): the number
// of bytes, or -1 with errno; receiving never waits.
ssize_t send_record(int socket, std::span<const std::byte> record, int fd = -1) noexcept;
ssize_t receive_record(int socket, std::span<std::byte> record, UniqueFd& fd) noexcept;

}  // namespace cove::sys
