#pragma once

#include <cstdint>

#include "base/id.hpp"

namespace cove::wire {

// What passes between the front and the egress process, over one SOCK_SEQPACKET pair. A request is one EgressRequest
// with descriptors; texts (a policy) are in a memfd. A reply is one EgressReply; an audit record (`decided`) is
// followed in the same message by `text_size` bytes of JSON.

enum class EgressVerb : std::uint32_t {
  open = 1,  // a sandbox gets a network. Carries: policy (memfd, JSON with secrets shown), then the sockets made in its
             // namespace: TCP relay v4, TCP relay v6, DNS over UDP, DNS over TCP, proxy (the last may be missing).
             // Replaces what was open.
  change = 2,  // another policy for one that is open: policy (memfd). Answered when it is in force for new connections.
  close = 3,   // everything of this sandbox ends
  inspect = 4,  // answered with the counters
};
enum class EgressScope : std::uint32_t {
  new_connections,
  all_connections
};  // with `change`: whether those that are open are judged again

struct EgressRequest {
  EgressVerb verb{};
  std::uint32_t serial = 0;
  SandboxId id;
  std::uint16_t reserved = 0;
  EgressScope scope{};
};

enum class EgressWord : std::uint32_t { done = 1, failed = 2, decided = 3, inspected = 4 };

struct EgressReply {
  EgressWord word{};
  std::uint32_t serial = 0;  // 0 when unasked
  SandboxId id;
  std::uint16_t reserved = 0;
  // Bytes that follow: with `failed` one sentence; with `decided` one audit record; with `done` of open and change
  // {"ca":"PEM"}, if the policy has headers, else nothing. With `inspected`, which has no bound worth stating, the JSON
  // comes in a memfd beside the record and this is its size.
  std::uint32_t text_size = 0;
};
inline constexpr std::uint32_t kMaxEgressText = 8192;

}  // namespace cove::wire
