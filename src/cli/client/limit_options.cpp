#include "cli/client/limit_options.hpp"

#include <charconv>
#include <cmath>

#include "base/units.hpp"

namespace cove::cli {

void describe(App& command, LimitOptions& options) {
  command.add_option("--memory", options.memory, "Memory, such as 512M or 1Gi")->group("Limits");
  command.add_option("--disk", options.disk, "Disk space, such as 256M; it is part of the memory")->group("Limits");
  command.add_option("--cpus", options.cpus, "Cores, such as 0.5 or 2")->group("Limits");
  command.add_option("--pids", options.pids, "Processes and threads")->group("Limits");
}

Result<> set_limits(boost::json::object& body, const LimitOptions& arguments) {
  const auto size = [&](const char* option, const std::string& text, const char* field) -> Result<> {
    if (text.empty()) return {};
    const auto bytes = parse_size(text);
    if (!bytes) return fail(Errc::invalid, fmt::format("{}: {}", option, bytes.error().message));
    body[field] = std::to_string(*bytes);
    return {};
  };
  COVE_CHECK(size("--memory", arguments.memory, "memoryLimit"));
  COVE_CHECK(size("--disk", arguments.disk, "ephemeralStorageLimit"));
  if (!arguments.cpus.empty()) {
    double cpus = 0;
    const auto* last = arguments.cpus.data() + arguments.cpus.size();
    const auto [end, failed] = std::from_chars(arguments.cpus.data(), last, cpus);
    if (failed != std::errc() || end != last || !(cpus > 0) || cpus > 1e6)
      return fail(Errc::invalid, fmt::format("--cpus: '{}' is not a number of cores, as 0.5 or 2", arguments.cpus));
    body["cpuLimit"] = fmt::format("{}m", std::llround(cpus * 1000));
  }
  if (!arguments.pids.empty()) {
    std::int64_t pids = 0;
    const auto* last = arguments.pids.data() + arguments.pids.size();
    const auto [end, failed] = std::from_chars(arguments.pids.data(), last, pids);
    if (failed != std::errc() || end != last)
      return fail(Errc::invalid, fmt::format("--pids: '{}' is not a number", arguments.pids));
    body["pidsLimit"] = pids;
  }
  return {};
}

}  // namespace cove::cli
