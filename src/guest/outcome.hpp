#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  std::uint64_t oom_kills = 0;
  std::uint64_t pids_refused = 0;
  bool disk_full = false;  // at the moment it ended
};

Reason judge(const Evidence& evidence);

// The exit status of `cove run`: the program's own, 128+n for a signal, 124 timeout, 130 cancelled, 137 when memory ran
// out.
int exit_status(Reason reason, const Evidence& evidence);

// "SIGKILL"; "SIG34" for those without a name. Empty for 0.
std::string signal_name(int signal);

}  // namespace cove::guest
