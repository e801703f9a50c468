#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/init_messages.hpp"

namespace cove::guest {

// Why a run ended. The words are the same through every door.
enum class Reason : std::uint8_t {
  exited,
  signalled,
  timeout,
  oom,
  pids,
  disk,
  output_limit,
  cancelled,
  kernel_died,
  sandbox_gone,
  shutdown,     // the server ended
  not_started,  // it never became its program
};
std::string_view name_of(Reason reason);
std::vector<Reason> all_reasons();
// The other way; `sandbox_gone` for what is no reason.
Reason reason_of(std::string_view name);

// What is known about the end, each from the kernel, through init, the control group or the clock; nothing from the
// code that ran.
struct Evidence {
  std::optional<Reason> stopped_by_us;  // timeout, oom, output_limit, cancelled: why the front ended it
  bool exit_seen = false;               // false: init died before it could tell
  int exit_code = -1;                   // -1 when a signal ended it
  int signal = 0;
  std::uint64_t oom_kills = 0;     // processes that the kernel killed for memory while it ran
  std::uint64_t pids_refused = 0;  // forks that the kernel refused while it ran
  bool disk_full = false;          // at the moment it ended: no room for bytes,
  bool files_full = false;         // or for one more file
};
// What init reported of an exit. Counters are the caller's to add.
Evidence evidence_of(const std::optional<wire::Exited>& exited, std::optional<Reason> stopped_by_us);

// A program that met a limit and ended well has simply exited.
Reason judge(const Evidence& evidence);

// The program's own, and 128+n for a signal, whenever init saw it exit and we did not stop it. Otherwise 124 timeout,
// 130 cancelled, 125 sandbox_gone, 137 for the rest.
int exit_status(Reason reason, const Evidence& evidence);

// "SIGKILL"; "SIG34" for those without a name. Empty for 0.
std::string signal_name(int signal);

}  // namespace cove::guest
