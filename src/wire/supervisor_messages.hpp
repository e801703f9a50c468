#pragma once

#include <cstddef>
#include <cstdint>

namespace cove::wire {

// What the front asks of the supervisor, over one SOCK_SEQPACKET pair: records of fixed size, as the keeper's. Those
// about templates are not read by the supervisor but by a process that it starts for each (builder/builder.hpp), and
// carry descriptors: where the answer is written, and with `build` where the log goes.

enum class SupervisorVerb : std::uint32_t {
  replace_keeper = 1,     // it lives and does not answer
  build_template = 2,     // answer, log
  remove_template = 3,    // answer
  sweep_templates = 4,    // answer; removes all but those that are listed, and what builds left
  start_host_server = 6,  // a socket for the answer; the server's name is in `packages`
  require_keys = 5,       // there is a key now: whatever becomes of the database, the next front asks for one
};

// What the supervisor sends to the front: one byte and one descriptor.
enum class SupervisorWord : std::uint8_t {
  keeper = 1,         // the line to a new one, because the one before has died
  configuration = 2,  // the file as it is now, because somebody asked for it to be read again
  egress = 3,         // the line to a new egress process, because the one before has died
};

inline constexpr std::size_t kMaxTemplates = 64;

struct SupervisorRequest {
  SupervisorVerb verb{};
  std::uint32_t number = 0;           // of the template
  std::uint32_t timeout_seconds = 0;  // with `build_template`
  std::uint32_t count = 0;            // with `sweep_templates`
  std::uint64_t max_bytes = 0;        // with `build_template`: on disk
  std::uint32_t numbers[kMaxTemplates] = {};
  char packages[16384] = {};  // with `build_template`: a name a line
  char preload[4096] = {};    // the same of modules
};

// What comes over that socket: this, and with it the program's standard input, output and error and the socket of its
// minder (mcp/host/minder.hpp), unless `why` is not empty.
struct HostServerAnswer {
  char why[512] = {};
};

}  // namespace cove::wire
