#include "guest/limit_message.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <array>

#include "base/units.hpp"

namespace cove::guest {
namespace {

// "--memory 1G gives more". `option` is the same for `cove run` and `cove create`; `field` is the API's.
std::string next_step(Remedy remedy, std::string_view option, std::string_view value, std::string_view field) {
  if (remedy == Remedy::run_option) return fmt::format("{} {} gives more", option, value);
  return fmt::format("cove update {} {} (API: {}) gives more", option, value, field);
}

std::string about_memory(const Evidence& evidence, const RunFacts& facts) {
  auto text = fmt::format("memory limit {} reached", format_size(facts.limits.memory_bytes));
  if (facts.memory_peak_bytes > 0) text += fmt::format(" (peak {})", format_size(facts.memory_peak_bytes));
  if (facts.file_bytes >= facts.limits.memory_bytes / 4 && facts.file_bytes > 0)
    text += fmt::format(", {} of it by files, which count as memory", format_size(facts.file_bytes));
  const bool alive = evidence.exit_seen && !evidence.stopped_by_us && evidence.signal != SIGKILL;
  if (alive && evidence.signal == 0)
    text += fmt::format("; the program went on and exited with status {}", evidence.exit_code);
  else if (alive)
    text += fmt::format("; the program went on and was ended by {}", signal_name(evidence.signal));
  else if (evidence.stopped_by_us == Reason::timeout)
    text += "; the program went on until its time limit";
  return text + "; " + next_step(facts.remedy, "--memory", format_size(2 * facts.limits.memory_bytes), "memoryLimit");
}

std::string about_disk(const Evidence& evidence, const RunFacts& facts) {
  const auto step =
      next_step(facts.remedy, "--disk", format_size(2 * facts.limits.disk_bytes), "ephemeralStorageLimit");
  if (evidence.files_full && !evidence.disk_full && evidence.signal != SIGXFSZ)
    return fmt::format("file limit {} reached: no more files can be made; delete some, or pack many into one",
                       facts.limits.inodes);
  if (evidence.signal == SIGXFSZ && !evidence.disk_full)
    return fmt::format("a file would have been larger than the disk limit {}; {}", format_size(facts.limits.disk_bytes),
                       step);
  return fmt::format("disk limit {} reached; delete files, or {}", format_size(facts.limits.disk_bytes), step);
}

// What shells tell of too. The others are how a program is asked to end.
bool is_worth_a_line(int signal) {
  constexpr auto kTold =
      std::to_array<int>({SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGTRAP, SIGXCPU, SIGKILL, SIGQUIT});
  return std::ranges::find(kTold, signal) != kTold.end();
}

std::string killed_processes(std::uint64_t count) {
  return count == 1 ? "a process was killed" : fmt::format("{} processes were killed", count);
}

}  // namespace

std::string limit_cause(Reason reason, const Evidence& evidence, const RunFacts& facts) {
  switch (reason) {
    case Reason::oom:
      return about_memory(evidence, facts);
    case Reason::pids:
      return fmt::format("process limit {} reached ({} more refused); {}", facts.limits.pids, evidence.pids_refused,
                         next_step(facts.remedy, "--pids", std::to_string(2 * facts.limits.pids), "pidsLimit"));
    case Reason::disk:
      return about_disk(evidence, facts);
    default:
      return "";
  }
}

std::string killed_beside(std::uint64_t oom_kills, const RunFacts& facts) {
  return fmt::format("{}: {}", killed_processes(oom_kills), about_memory({.oom_kills = oom_kills}, facts));
}

std::string limit_message(Reason reason, const Evidence& evidence, const RunFacts& facts) {
  const bool coped = reason == Reason::exited && evidence.oom_kills > 0;
  if (reason == Reason::oom || coped) {
    const bool itself = !coped && (!evidence.exit_seen || evidence.signal == SIGKILL) && !evidence.stopped_by_us;
    return fmt::format("{}: {}", itself ? "killed" : killed_processes(std::max<std::uint64_t>(1, evidence.oom_kills)),
                       limit_cause(Reason::oom, evidence, facts));
  }
  if (reason == Reason::pids || reason == Reason::disk) return "failed: " + limit_cause(reason, evidence, facts);
  if (reason == Reason::signalled && is_worth_a_line(evidence.signal)) {
    const char* meaning = ::sigdescr_np(evidence.signal);
    return fmt::format("the program was ended by {}{}", signal_name(evidence.signal),
                       meaning == nullptr ? "" : fmt::format(" ({})", meaning));
  }
  return "";
}

}  // namespace cove::guest
