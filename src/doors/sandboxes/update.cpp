#include <array>

#include "doors/sandboxes/answers.hpp"
#include "doors/sandboxes/notes.hpp"
#include "doors/sandboxes/requested_settings.hpp"

namespace cove::doors::sandboxes {
namespace {

namespace json = boost::json;

constexpr http::RouteOptions kUpdateBody{.body_limit = 1U << 20};
constexpr auto kUpdateFields =
    std::to_array<std::string_view>({"memoryLimit", "ephemeralStorageLimit", "cpuLimit", "pidsLimit", "ttlSeconds"});

// The limits after the change. Disk space that was not asked for follows the memory, as it did at the creation, unless
// the sandbox has space of its own choosing; it never leaves the part of the memory that files may take.
sandbox::SandboxLimits changed_limits(const store::SandboxRow& row, const store::TemplateDefaults& requested,
                                      const config::SandboxLimits& usual) {
  const auto memory = requested.memory_bytes != 0 ? requested.memory_bytes : row.memory_bytes;
  const bool follows =
      row.disk_bytes == std::min(usual.disk_for(row.memory_bytes), sandbox::most_disk_bytes(row.memory_bytes));
  const auto disk = requested.disk_bytes != 0 ? requested.disk_bytes
                    : follows                 ? usual.disk_for(memory)
                                              : row.disk_bytes;
  return {.memory_bytes = memory,
          .disk_bytes = std::min(disk, sandbox::most_disk_bytes(memory)),
          .pids = requested.pids != 0 ? requested.pids : row.pids,
          .cpu_millis = requested.cpu_millis != 0 ? requested.cpu_millis : row.cpu_millis};
}

Task<Answer> patch_sandbox(Services& services, http::Exchange& exchange) {
  COVE_CO_TRY(const auto found, co_await find_sandbox(services, exchange.request()));
  COVE_CO_TRY(const auto body, co_await read_object(services, exchange));
  const auto config = services.config();
  COVE_CO_TRY(const auto requested, requested_limits(body, config->sandbox));
  COVE_CO_TRY(const auto ttl, requested_ttl(body, config->sandbox));
  const bool limits =
      requested.memory_bytes != 0 || requested.disk_bytes != 0 || requested.pids != 0 || requested.cpu_millis != 0;
  if (!limits && !ttl)
    co_return fail(Errc::invalid,
                   "nothing to change: give memoryLimit, ephemeralStorageLimit, cpuLimit, pidsLimit or ttlSeconds");
  if (limits) {
    const auto quotas = services.authority.allowance(exchange.request().principal).sandboxes;
    const auto wanted = changed_limits(found->row(), requested, config->sandbox);
    COVE_CO_CHECK(co_await services.registry.set_limits(found, wanted, quotas));
  }
  if (ttl)
    found->set_ttl(*ttl);
  else
    found->touch();
  auto answer = to_json(*found, services);
  add_notes(answer, unknown_fields(body, kUpdateFields));
  co_return http::json_response(200, std::move(answer));
}

constexpr auto kUpdateRoutes = std::to_array<Route>({
    {verb::patch, "/v1/sandboxes/{id}", answered<patch_sandbox>, kUpdateBody},
});

}  // namespace

Routes update_routes() {
  return kUpdateRoutes;
}

}  // namespace cove::doors::sandboxes
