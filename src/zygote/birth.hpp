#pragma once

#include <cstddef>
#include <cstdint>

#include "jail/locks.hpp"

namespace cove::zygote {

// What passes between the keeper and a zygote over one SOCK_SEQPACKET pair, and from a newborn over its report pipe.
// Same host, same build: the machine's own layout is the wire.

// In the zygote: its socket, and its own directory in /proc, which its root does not have.
inline constexpr int kSocket = 3;
inline constexpr int kOwnProc = 4;

// The descriptors beside a BirthRequest, in order; then the control group's v2 directory if there is one, then v1
// `tasks` files.
enum BirthFd : std::size_t { kInit, kReport, kStdin, kStdout, kStderr, kChannel, kFirstGroupFd };

struct BirthRequest {
  std::uint32_t has_unified = 0;
  // Nothing but init is in the sandbox. What else runs there may have used up its processor time or memory, and whoever
  // enters waits with it: the zygote must not wait for them, nor show them a process that has its memory.
  std::uint32_t alone = 0;
  jail::Locks locks;
};

// A zygote sends it once its modules are loaded, and again after every birth, good or bad: it is free for the next. A
// newborn that is held up inside its sandbox holds up no other.
struct Ready {
  std::uint32_t births = 0;  // requests carried out so far
};

// The result of a birth. End of file without it: the newborn died on its way.
struct Born {
  std::int32_t pid = -1;  // in the sandbox; -1: it failed
  jail::Report failure;
};

}  // namespace cove::zygote
