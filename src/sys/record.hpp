#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/unique_fd.hpp"

namespace cove::sys {

inline constexpr std::size_t kMaxRecordFds = 24;

// A move-only type does not go into an initialiser list.
template <typename... Fds>
std::vector<UniqueFd> descriptors(Fds... fds) {
  std::vector<UniqueFd> list;
  (list.push_back(std::move(fds)), ...);
  return list;
}

// One record over a SOCK_SEQPACKET socket, with descriptors beside it or without. As send(2) and recv(2): the number of
// bytes, or -1 with errno.
ssize_t send_record(int socket, std::span<const std::byte> record, std::span<const int> fds = {}) noexcept;

enum class Waiting : int { no, yes };
ssize_t receive_record(int socket, std::span<std::byte> record, std::vector<UniqueFd>& fds,
                       Waiting waiting = Waiting::no);
// For who expects one at most.
ssize_t receive_record(int socket, std::span<std::byte> record, UniqueFd& fd);

}  // namespace cove::sys
