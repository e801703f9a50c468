#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "store/sandbox_table.hpp"
#include "wire/keeper_messages.hpp"

namespace cove::sandbox {

enum class State : std::uint8_t { creating, running, paused, deleting, gone };
std::string_view name_of(State state);

// A named sandbox belongs to callers. A throwaway serves one piece of our own work: not listed, not found, not stored,
// and gone with the server.
enum class Purpose : std::uint8_t { named, throwaway };

// How the server and init speak: over a name that a later server finds, or, where a sandbox will only ever be a
// throwaway, over a line that ends with this server.
enum class Line : std::uint8_t { named, once };

// The facts of one sandbox. The Sandbox writes them, its parts read them.
struct SandboxRecord {
  store::SandboxRow row;
  Purpose purpose = Purpose::named;
  Line line = Line::named;
  State state = State::creating;
};

// The limits that can be changed while a sandbox lives.
struct SandboxLimits {
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint32_t pids = 0;
  std::uint32_t cpu_millis = 0;
  friend bool operator==(const SandboxLimits&, const SandboxLimits&) = default;
};

// A sandbox that is being deleted is reported like one that never was.
tl::unexpected<Error> not_found(const SandboxRecord& record);
// Why nothing can be started in it now: Errc::conflict while it is paused, Errc::not_found when it is going.
tl::unexpected<Error> not_startable(const SandboxRecord& record);

// Out-of-memory kills and refused forks in a sandbox since it was made, as the keeper counts them.
struct ResourceCounters {
  std::uint64_t oom_kills = 0;
  std::uint64_t pids_refused = 0;

  // Replies may overtake each other; the counters only grow.
  void update(const wire::KeeperReply& reply) {
    oom_kills = std::max(oom_kills, reply.oom_kills);
    pids_refused = std::max(pids_refused, reply.pids_refused);
  }
};

}  // namespace cove::sandbox
