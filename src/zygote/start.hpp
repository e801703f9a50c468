#pragma once

#include <sys/types.h>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "jail/plan.hpp"

namespace cove::zygote {

inline constexpr const char* kProgram = "/cove/python/zygote.py";

struct Started {
  pid_t pid = -1;
  UniqueFd pidfd;
  UniqueFd socket;  // SOCK_SEQPACKET, non-blocking: first a Ready, then a Ready for every BirthRequest
};

// Starts the interpreter `argv` as a zygote: the template's root, no network, no environment worth reading, and of the
// keeper's capabilities those that lead into a sandbox. `plan` tells the root and the size of its storage. Returns at
// once; one that cannot start ends, and its socket with it. The caller is single-threaded and lives in the keeper's
// room.
Result<Started> start(const jail::Plan& plan, char* const* argv);

}  // namespace cove::zygote
