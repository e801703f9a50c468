#include "doors/sandboxes/requested_settings.hpp"

#include <cmath>

#include "base/units.hpp"

#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/quantity.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr std::size_t kEnvironmentLimit = 128U << 10;

// How a number is shown to people: bytes as 512M, thousandths of a core as 500m.
enum class Unit { bytes, millis, count };

struct Range {
  std::string_view field;
  std::uint64_t least;
  std::uint64_t most;
  Unit unit;
};

std::string shown(Unit unit, std::uint64_t value) {
  if (unit == Unit::bytes) return format_size(value);
  return unit == Unit::millis ? fmt::format("{} cores", static_cast<double>(value) / 1000) : std::to_string(value);
}

Result<std::uint64_t> within(const Range& range, std::uint64_t value) {
  if (value < range.least)
    return fail(Errc::invalid,
                fmt::format("{} is less than the minimum of {}", range.field, shown(range.unit, range.least)));
  if (value > range.most)
    return fail(Errc::invalid,
                fmt::format("{} is more than this server's limit of {}", range.field, shown(range.unit, range.most)));
  return value;
}

// A Kubernetes quantity as text, or a bare number. 0: not given.
Result<std::uint64_t> quantity(const json::object& body, const Range& range, std::uint64_t unit_millis) {
  const auto* value = body.if_contains(range.field);
  if (value == nullptr || value->is_null() || (value->is_string() && value->as_string().empty()))
    return std::uint64_t{0};
  std::string text;
  if (value->is_string())
    text = value->as_string();
  else if (value->is_number())
    text = fmt::format("{:f}", value->to_number<double>());
  else
    return fail(Errc::invalid, fmt::format("{} must be a quantity such as \"512Mi\"", range.field));
  const auto millis = parse_quantity_millis(text);
  if (!millis) return fail(Errc::invalid, fmt::format("{} {}", range.field, millis.error().message));
  return within(range, *millis / unit_millis);
}

}  // namespace

Result<store::TemplateDefaults> requested_limits(const json::object& body, const config::SandboxLimits& limits) {
  store::TemplateDefaults requested;
  const Range memory{"memoryLimit", 16U << 20, limits.max_memory_bytes, Unit::bytes};
  COVE_TRY(requested.memory_bytes, quantity(body, memory, 1000));
  const Range disk{"ephemeralStorageLimit", 1U << 20, limits.max_disk_bytes, Unit::bytes};
  COVE_TRY(requested.disk_bytes, quantity(body, disk, 1000));
  const Range cpu{"cpuLimit", 10, limits.max_cpu_millis, Unit::millis};
  COVE_TRY(const auto millis, quantity(body, cpu, 1));
  requested.cpu_millis = static_cast<std::uint32_t>(millis);
  const Range pids{"pidsLimit", 8, limits.max_pids, Unit::count};
  COVE_TRY(const auto processes, quantity(body, pids, 1000));
  requested.pids = static_cast<std::uint32_t>(processes);
  return requested;
}

Result<std::optional<std::chrono::milliseconds>> requested_ttl(const json::object& body,
                                                               const config::SandboxLimits& limits) {
  COVE_TRY(const auto given, number_field(body, "ttlSeconds"));
  if (!given) return std::optional<std::chrono::milliseconds>();
  const double most = std::chrono::duration<double>(limits.max_ttl).count();
  if (!(*given >= 1) || *given != std::floor(*given))
    return fail(Errc::invalid, "ttlSeconds must be a whole number of at least 1");
  if (*given > most) return fail(Errc::invalid, fmt::format("ttlSeconds is more than this server's limit of {}", most));
  return std::optional(std::chrono::milliseconds(static_cast<std::int64_t>(*given) * 1000));
}

Result<std::string> requested_environment(const json::object& body, const std::string& under_json) {
  COVE_TRY(const auto variables, environment_field(body, "env"));
  boost::system::error_code failed;
  const auto under = json::parse(under_json, failed);
  json::object env = !failed && under.is_object() ? under.as_object() : json::object();
  for (const auto& variable : variables) {
    const auto equals = variable.find('=');
    env[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  auto text = json::serialize(env);
  if (text.size() > kEnvironmentLimit) return fail(Errc::invalid, "env is larger than 128 KiB");
  return text;
}

config::ExecLimits exec_limits_in(const sandbox::Sandbox& sandbox, const Services& services) {
  auto limits = services.config()->exec;
  const auto* from = services.registry.templates().find(sandbox.row().template_name);
  if (from != nullptr && from->defaults.timeout_ms != 0)
    limits.timeout = std::min(std::chrono::milliseconds(from->defaults.timeout_ms), limits.max_timeout);
  return limits;
}

}  // namespace cove::doors::sandboxes
