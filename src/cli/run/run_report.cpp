#include "cli/run/run_report.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "base/text.hpp"
#include "base/units.hpp"
#include "cli/console.hpp"
#include "guest/limit_message.hpp"
#include "sys/seccomp.hpp"

namespace cove::cli {
namespace {

namespace json = boost::json;

constexpr int kOutMissing = 123;  // the program ended well, without making what --out names

guest::Evidence evidence_of(const RunReport& report) {
  auto evidence = guest::evidence_of(report.end.exited, report.stopped_by_us);
  evidence.oom_kills = report.counted.oom_kills;
  evidence.pids_refused = report.counted.pids_refused;
  return evidence;
}

guest::RunFacts facts_of(const RunReport& report, const RunOptions& options) {
  const auto& limits = options.limits;
  guest::RunFacts facts{.limits = {.memory_bytes = limits.memory_bytes,
                                   .disk_bytes = limits.disk_bytes,
                                   .inodes = limits.inodes,
                                   .pids = limits.pids},
                        .memory_peak_bytes = report.counted.memory_peak_bytes,
                        .remedy = guest::Remedy::run_option};
  if (report.end.exited)
    facts.file_bytes = limits.disk_bytes - std::min(limits.disk_bytes, report.end.exited->disk_free_bytes);
  return facts;
}

std::uint64_t lost(std::uint64_t total, std::uint64_t limit) {
  return total > limit ? total - limit : 0;
}

// Text as it is when it is UTF-8; otherwise readable text, and the exact bytes beside it.
void put_stream(json::object& object, const std::string& name, const std::string& bytes) {
  if (valid_utf8(bytes)) {
    object[name] = bytes;
    return;
  }
  object[name] = replace_invalid_utf8(bytes);
  object[name + "_base64"] = base64(bytes);
}

json::object isolation_of(const RunReport& report, const RunOptions& options) {
  const auto& enforcement = report.enforcement;
  json::array degraded;
  for (const auto& item : report.degraded) degraded.emplace_back(item);
  return {
      {"backend", "jail"},
      {"mode", host::name_of(enforcement.identity)},
      {"unique_uid", enforcement.identity != host::IdentityMode::one_user},
      {"namespaces", {"user", "mount", "pid", "net", "ipc", "uts", "cgroup"}},
      {"cgroup", sys::name_of(enforcement.cgroup)},
      {"seccomp", fmt::format("default-{:016x}", sys::default_seccomp_hash())},
      {"landlock", enforcement.landlock_abi},
      {"network", egress::word_of(options.network.mode)},
      {"template", options.template_name},
      {"degraded", degraded},
  };
}

// Whole cores as whole numbers.
json::value cpus_of(const RunOptions& options) {
  if (options.limits.cpu_millis % 1000 == 0) return options.limits.cpu_millis / 1000;
  return options.limits.cpu_millis / 1000.0;
}

json::object limits_of(const RunOptions& options) {
  return {
      {"timeout_ms", options.timeout.count()},
      {"memory_bytes", options.limits.memory_bytes},
      {"cpus", cpus_of(options)},
      {"pids", options.limits.pids},
      {"disk_bytes", options.limits.disk_bytes},
      {"inodes", options.limits.inodes},
      {"output_bytes", options.output_limit},
  };
}

// One clear line, for the limits that ended the run or spoiled its result.
std::string line_for(guest::Reason reason, const RunReport& report, const RunOptions& options) {
  if (auto line = guest::limit_message(reason, evidence_of(report), facts_of(report, options)); !line.empty())
    return line;
  switch (reason) {
    case guest::Reason::timeout:
      return fmt::format("killed: time limit {} reached", format_duration(options.timeout));
    case guest::Reason::output_limit:
      return fmt::format("killed: output went on far past its limit {}", format_size(options.output_limit));
    case guest::Reason::sandbox_gone:
      return "the sandbox ended before the program did";
    default:
      return "";
  }
}

void print_lines(guest::Reason reason, const RunReport& report, const RunOptions& options) {
  for (const auto& out : report.outs) {
    if (!out.error.empty()) tell("--out {}: {}", out.file.sandbox_path, out.error);
  }
  if (options.quiet) return;
  if (const auto line = line_for(reason, report, options); !line.empty()) tell("{}", line);
  if (!report.refused.empty())
    tell("the network policy (mode {}) refused {}; --allow HOST:PORT allows it", egress::word_of(options.network.mode),
         printable(fmt::format("{}", fmt::join(report.refused, ", "))));
  if (report.end.undelivered > 0)
    tell("{} bytes of output were not read by anyone and are lost", report.end.undelivered);
  if (!report.end.exited) return;
  const auto out = lost(report.end.exited->out_bytes, options.output_limit);
  const auto err = lost(report.end.exited->err_bytes, options.output_limit);
  if (out + err > 0)
    tell("output truncated: {} bytes of stdout and {} of stderr past --output-limit {} were dropped", out, err,
         format_size(options.output_limit));
  for (const auto& item : report.degraded) tell("not enforced: {}", item);
}

}  // namespace

int publish(const RunReport& report, const RunOptions& options) {
  const auto evidence = evidence_of(report);
  const auto reason = guest::judge(evidence);
  int status = guest::exit_status(reason, evidence);
  if (reason == guest::Reason::cancelled && report.cancel_signal != 0) status = 128 + report.cancel_signal;
  const auto failed = [](const CopiedOut& out) { return !out.error.empty() && !out.missing; };
  const bool broken = std::ranges::any_of(report.outs, failed);
  const bool missing = std::ranges::any_of(report.outs, &CopiedOut::missing);
  const int returned = status != 0 ? status : broken ? 125 : missing ? kOutMissing : 0;
  print_lines(reason, report, options);
  if (!options.json) return returned;

  json::object object;
  object["exit_code"] = status;
  object["signal"] = evidence.signal != 0 ? json::value(guest::signal_name(evidence.signal)) : json::value(nullptr);
  object["reason"] = guest::name_of(reason);
  put_stream(object, "stdout", report.out);
  put_stream(object, "stderr", report.err);
  const auto exited =
      report.end.exited.value_or(wire::Exited{.out_bytes = report.out.size(), .err_bytes = report.err.size()});
  object["truncated"] = {{"stdout", lost(exited.out_bytes, options.output_limit)},
                         {"stderr", lost(exited.err_bytes, options.output_limit)}};
  object["duration_ms"] = std::chrono::round<std::chrono::milliseconds>(report.end.wall).count();
  // The group counts every process; without one, what init was told of those that were waited for.
  const auto cpu_usec = report.counted.cpu_usec != 0 ? report.counted.cpu_usec : exited.cpu_usec;
  object["cpu_ms"] = (cpu_usec + 500) / 1000;
  object["peak_memory_bytes"] = report.counted.memory_peak_bytes;
  object["oom_kills"] = evidence.oom_kills;
  object["forks_refused"] = evidence.pids_refused;
  const auto note = line_for(reason, report, options);
  object["note"] = note.empty() ? json::value(nullptr) : json::value(note);
  object["limits"] = limits_of(options);
  if (options.network.mode != egress::Mode::none) object["refused"] = json::value_from(report.refused);
  object["isolation"] = isolation_of(report, options);
  if (!report.outs.empty()) {
    json::array outs;
    for (const auto& out : report.outs) {
      json::object entry{{"path", replace_invalid_utf8(out.file.sandbox_path)},
                         {"host", replace_invalid_utf8(out.file.host_path)}};
      if (out.error.empty())
        entry["bytes"] = out.bytes;
      else
        entry["error"] = replace_invalid_utf8(out.error);
      outs.push_back(std::move(entry));
    }
    object["out"] = std::move(outs);
  }
  if (const auto put = put_line(json::serialize(object)); !put) {
    tell("{}", put.error().message);
    return 125;
  }
  return returned;
}

}  // namespace cove::cli
