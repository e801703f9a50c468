#include "jobs/job_result.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "json/shape.hpp"
#include "sandbox/program.hpp"

namespace cove::jobs {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxValueBytes = 1U << 20;  // of a handler's return value
constexpr std::size_t kMaxElements = 500'000;     // of what it comes in

// Python writes numbers that JSON does not have. Outside of strings they become null.
std::string without_nan(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto rest = text.substr(at);
    if (quoted && text[at] == '\\' && at + 1 < text.size()) {
      out.append(text.substr(at++, 2));
      continue;
    }
    if (text[at] == '"') quoted = !quoted;
    const std::string_view word = quoted                          ? ""
                                  : rest.starts_with("NaN")       ? "NaN"
                                  : rest.starts_with("Infinity")  ? "Infinity"
                                  : rest.starts_with("-Infinity") ? "-Infinity"
                                                                  : "";
    if (word.empty()) {
      out.push_back(text[at]);
      continue;
    }
    out += "null";
    at += word.size() - 1;
  }
  return out;
}

// What was cut off in the middle of a character is cut off before it.
std::string shown(std::string_view kept, std::uint64_t written) {
  if (written > kept.size()) kept.remove_suffix(unfinished_utf8(kept));
  return replace_invalid_utf8(kept);
}

}  // namespace

std::string_view status_of(guest::Reason reason, int exit_status) {
  switch (reason) {
    case guest::Reason::exited:
      return exit_status == 0 ? "completed" : "failed";
    case guest::Reason::timeout:
      return "timeout";
    case guest::Reason::cancelled:
      return "cancelled";
    case guest::Reason::signalled:
    case guest::Reason::oom:
    case guest::Reason::kernel_died:
    case guest::Reason::sandbox_gone:
    case guest::Reason::shutdown:
      return "crashed";
    default:
      return "failed";
  }
}

Returned returned_by(std::string_view message) {
  Returned returned;
  if (cove::json::shape_of(message).elements > kMaxElements) {
    returned.error = fmt::format("the return value has more than {} elements", kMaxElements);
    return returned;
  }
  boost::system::error_code failed;
  const auto said = json::parse(without_nan(message), failed);
  const auto* object = failed ? nullptr : said.if_object();
  const auto* code = object == nullptr ? nullptr : object->if_contains("exit_code");
  const auto* value = object == nullptr ? nullptr : object->if_contains("result");
  if (code == nullptr || !code->is_int64() || value == nullptr) {
    returned.error = "the handler ended without a result";
    return returned;
  }
  returned.exit_code = static_cast<int>(std::clamp<std::int64_t>(code->as_int64(), 0, 255));
  if (json::serialize(*value).size() > kMaxValueBytes) {
    returned.error = fmt::format("the return value is larger than {} bytes", kMaxValueBytes);
    returned.exit_code = std::max(returned.exit_code, 1);
    return returned;
  }
  returned.value = *value;
  return returned;
}

json::object result_of(const sandbox::Process& process, std::string_view out, std::string_view err) {
  const auto& end = *process.end();
  json::object result{{"exitCode", end.exit_status},
                      {"signal", nullptr},
                      {"reason", name_of(end.reason)},
                      {"stdout", shown(out, end.out_bytes)},
                      {"stderr", shown(err, end.err_bytes)},
                      {"stdoutBytes", end.out_bytes},
                      {"stderrBytes", end.err_bytes},
                      {"stdoutTruncated", end.out_bytes > out.size()},
                      {"stderrTruncated", end.err_bytes > err.size()},
                      {"durationMs", end.wall.count()},
                      {"cpuMs", sandbox::cpu_time(process).count()}};
  if (end.signal != 0) result["signal"] = guest::signal_name(end.signal);
  if (end.oom_kills > 0) result["oomKills"] = end.oom_kills;
  if (end.pids_refused > 0) result["forksRefused"] = end.pids_refused;
  // A program that ended well has no error, whatever the kernel did while it ran.
  if (!end.note.empty())
    result[end.reason == guest::Reason::exited ? "note" : "error"] = replace_invalid_utf8(end.note);
  return result;
}

}  // namespace cove::jobs
