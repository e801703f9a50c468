#include "server/reload.hpp"

#include <unistd.h>

#include "base/io.hpp"

namespace cove::server {
namespace {

Result<config::Config> load_again(const Services& services, UniqueFd file) {
  if (!file || ::lseek(file.get(), 0, SEEK_SET) != 0)
    return fail(Errc::io, "the supervisor could not send the configuration");
  auto input = services.options.reload_from;
  if (auto text = read_all(file.get()); text && !services.config->file.empty()) {
    input.file = services.config->file;
    input.content = std::move(*text);
  }
  COVE_TRY(auto loaded, config::load(input));
  COVE_CHECK(check_services(loaded));
  return loaded;
}

void apply(Services& services) {
  const auto config = services.config();
  services.log.set(config->log);
  services.admission.set_options(admission_options(*config, services.registry));
  services.slots.set_options(slot_options(*config));
  services.files.set_options(file_options(*config, services.files_disk));
  services.spool.set_reserve(file_options(*config, services.files_disk).reserve_bytes);
  services.registry.set_max_sandboxes(config->max_sandboxes);
  services.registry.pool().open(pool_options(*config));
  services.server.reload(http_options(*config));
  services.installs.set_options(install_options(*config));
  set_bounds(*config, *services.store, services.registry);
}

std::string joined(const std::vector<std::string>& keys) {
  return keys.empty() ? "-" : fmt::format("{}", fmt::join(keys, ","));
}

}  // namespace

void reload(Services& services, UniqueFd file) {
  auto loaded = load_again(services, std::move(file));
  if (!loaded) {
    services.log.error(fmt::format("reload refused, the old configuration stays: {}", loaded.error().message));
    return;
  }
  // The port that port 0 became stays.
  const auto& listen = services.config->listen;
  if (loaded->listen.port == 0 && loaded->listen.host == listen.host) loaded->listen = listen;
  auto plan = config::plan_reload(*services.config(), *loaded);
  services.config.replace(std::move(plan.config));
  apply(services);
  services.log.info(
      fmt::format("reloaded changed={} need_restart={}", joined(plan.applied), joined(plan.need_restart)));
}

}  // namespace cove::server
