#include "guest/outcome.hpp"

#include <signal.h>
#include <string.h>

namespace cove::guest {
namespace {

constexpr std::uint64_t kPage = 4096;  // below it no write can be stored

}  // namespace

std::string_view name_of(Reason reason) {
  switch (reason) {
    case Reason::exited:
      return "exited";
    case Reason::signalled:
      return "signalled";
    case Reason::timeout:
      return "timeout";
    case Reason::oom:
      return "oom";
    case Reason::pids:
      return "pids";
    case Reason::disk:
      return "disk";
    case Reason::output_limit:
      return "output_limit";
    case Reason::cancelled:
      return "cancelled";
    case Reason::kernel_died:
      return "kernel_died";
    case Reason::sandbox_gone:
      return "sandbox_gone";
    case Reason::shutdown:
      return "shutdown";
    case Reason::not_started:
      return "not_started";
  }
  return "sandbox_gone";
}

std::vector<Reason> all_reasons() {
  std::vector<Reason> all;
  for (auto reason = Reason::exited; reason <= Reason::not_started;
       reason = static_cast<Reason>(static_cast<std::uint8_t>(reason) + 1))
    all.push_back(reason);
  return all;
}

Reason reason_of(std::string_view name) {
  for (const auto reason : all_reasons()) {
    if (name_of(reason) == name) return reason;
  }
  return Reason::sandbox_gone;
}

Evidence evidence_of(const std::optional<wire::Exited>& exited, std::optional<Reason> stopped_by_us) {
  if (!exited) return {.stopped_by_us = stopped_by_us};
  return {.stopped_by_us = stopped_by_us,
          .exit_seen = true,
          .exit_code = exited->exit_code,
          .signal = exited->signal,
          .disk_full = exited->disk_free_bytes < kPage,
          .files_full = exited->disk_free_inodes == 0};
}

Reason judge(const Evidence& evidence) {
  // A parent that waits for ever for the child the kernel killed runs into its time limit; memory is what ended it.
  if (evidence.stopped_by_us == Reason::timeout && evidence.oom_kills > 0) return Reason::oom;
  if (evidence.stopped_by_us) return *evidence.stopped_by_us;
  if (!evidence.exit_seen) return evidence.oom_kills > 0 ? Reason::oom : Reason::sandbox_gone;
  const bool failed = evidence.signal != 0 || evidence.exit_code != 0;
  // Also when only a child was killed: the program failed for want of what that child did.
  if (failed && evidence.oom_kills > 0) return Reason::oom;
  if (evidence.signal == SIGXFSZ) return Reason::disk;
  if (failed && (evidence.disk_full || evidence.files_full)) return Reason::disk;
  if (failed && evidence.pids_refused > 0) return Reason::pids;
  return evidence.signal != 0 ? Reason::signalled : Reason::exited;
}

int exit_status(Reason reason, const Evidence& evidence) {
  if (reason == Reason::timeout) return 124;
  if (reason == Reason::cancelled) return 130;
  if (reason == Reason::sandbox_gone) return 125;
  if (evidence.stopped_by_us || !evidence.exit_seen) return 128 + SIGKILL;
  return evidence.signal != 0 ? 128 + evidence.signal : evidence.exit_code;
}

std::string signal_name(int signal) {
  if (signal == 0) return "";
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "SIG" + std::to_string(signal) : std::string("SIG") + name;
}

}  // namespace cove::guest
