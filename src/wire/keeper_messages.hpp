#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/id.hpp"
#include "base/result.hpp"

namespace cove::wire {

// What passes between the front and the keeper, over one SOCK_SEQPACKET pair: each message is one record of fixed size,
// so that the privileged side parses nothing. Same host, same binary: the machine's own layout is the wire.

enum class KeeperVerb : std::uint32_t {
  create = 1,   // carries one descriptor: init's end of its control socket
  destroy = 2,  // answered by `gone` when the last process, mount and group is
  pause = 3,
  resume = 4,
  inspect = 5,
  adopt = 6,  // a sandbox of the keeper before: init_pid, group, host_uid as that one's `created` said
  sweep = 7,  // ends and removes every sandbox that was neither created by nor adopted into this keeper
  birth = 8,  // of an interpreter in a sandbox; carries its stdin, stdout, stderr and channel; answered by `born`
  retire_template = 9,  // no sandbox is made from it any more: its zygotes end
  relimit = 10,         // gives a sandbox other limits; Errc::conflict when more than that is in use
  kill = 11,            // every process in it has been killed when this is answered; `destroy` waits for the rest
  network = 12,  // carries a NetworkOrder (wire/network_records.hpp) in a memfd, and a socket for the answer to it
};

// The control group of one sandbox, below the keeper's own.
struct GroupName {
  char text[24] = {};
};

enum class SandboxTerminal : std::uint32_t { none, available };
// Whether processes may be born into the sandbox from a zygote.
enum class SandboxBirths : std::uint32_t { none, possible };

struct KeeperRequest {
  KeeperVerb verb{};
  std::uint32_t serial = 0;  // comes back in the answer
  SandboxId id;
  std::uint16_t reserved = 0;
  std::uint32_t root = 0;  // 0: the host's; else the number of a template
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint64_t inodes = 0;
  std::uint32_t pids = 0;
  std::uint32_t cpu_millis = 0;
  SandboxTerminal terminal{};
  std::int32_t init_pid = -1;
  std::int32_t host_uid = -1;
  SandboxBirths births{};
  GroupName group;
  std::uint32_t zygote = 0;    // with `birth`: which group of zygotes; those of one group share a memory layout
  std::uint32_t light = 0;     // with `birth`: 1 where a light zygote will do
  std::uint32_t max_pids = 0;  // how far its limits may be raised while it lives; 0: not at all
  std::uint64_t max_disk_bytes = 0;
  std::uint64_t lease_millis = 0;  // with `pause`: how long it may live if no keeper comes after this one
};

enum class KeeperWord : std::uint32_t {
  created = 1,        // every lock is on and init runs; also the answer to adopt
  failed = 2,         // the request was not carried out: error_of() says why
  done = 3,           // pause, resume, inspect, sweep, relimit, kill
  gone = 4,           // answer to destroy: nothing is left
  died = 5,           // unasked: init ended by itself
  out_of_memory = 6,  // unasked: the kernel killed a process of the sandbox for memory
  not_started = 7,    // unasked, the only reply: the keeper itself could not start
  born = 8,           // answer to birth: it runs in the sandbox, every lock on; `born_pid`
};

struct KeeperReply {
  KeeperWord word{};
  std::uint32_t serial = 0;  // 0 when unasked
  SandboxId id;
  std::uint16_t reserved = 0;
  std::int32_t sys_errno = 0;
  std::int32_t host_uid = -1;  // as the keeper's user namespace counts
  std::int32_t init_pid = -1;  // on the host
  Errc code = Errc::io;        // with `failed`
  std::int32_t born_pid = -1;  // in the sandbox
  GroupName group;
  std::uint64_t memory_bytes = 0;  // in use
  std::uint64_t processes = 0;
  std::uint64_t cpu_usec = 0;
  std::uint64_t memory_peak_bytes = 0;
  std::uint64_t oom_kills = 0;
  std::uint64_t pids_refused = 0;
  char message[200] = {};  // with `failed` and `not_started`: one sentence
};

inline void set_error(KeeperReply& reply, const Error& error) {
  reply.code = error.code;
  reply.sys_errno = error.sys_errno;
  std::memcpy(reply.message, error.message.data(), std::min(error.message.size(), sizeof reply.message - 1));
}
inline Error error_of(const KeeperReply& reply) {
  return {.code = reply.code,
          .message = std::string(reply.message, ::strnlen(reply.message, sizeof reply.message)),
          .sys_errno = reply.sys_errno};
}

}  // namespace cove::wire
