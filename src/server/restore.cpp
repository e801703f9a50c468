#include "server/restore.hpp"

#include "server/service_metrics.hpp"

namespace cove::server {
namespace {

using async::Task;

void log_failure(const Services& services, std::string_view what, const Error& error) {
  services.log.error(fmt::format("{} reason=\"{}\"", what, error.message));
}

void sweep_files(Services& services) {
  const auto swept = services.files.sweep();
  if (!swept) return log_failure(services, "files cannot be swept", swept.error());
  if (*swept > 0) services.log.info(fmt::format("files swept={}", *swept));
}

void sweep_spool(Services& services) {
  const auto swept = services.spool.sweep();
  if (!swept) return log_failure(services, "spooled output cannot be swept", swept.error());
  if (*swept > 0) services.log.info(fmt::format("spool swept={}", *swept));
}

void read_callbacks(Services& services) {
  if (const auto read = services.callbacks.remember(); !read)
    log_failure(services, "callbacks cannot be read", read.error());
}

void read_executions(Services& services) {
  if (const auto read = services.jobs.remember(); !read)
    log_failure(services, "executions cannot be read", read.error());
}

Task<> adopt_sandboxes(Services& services, keeper::KeeperLink keeper) {
  if (const auto ready = co_await services.registry.restore(std::move(keeper)); !ready)
    log_failure(services, "keeper failed", ready.error());
}

Task<> sweep_templates(Services& services) {
  if (const auto swept = co_await services.registry.templates().sweep(); !swept)
    log_failure(services, "templates cannot be swept", swept.error());
}

// From now on nobody waits long for the database: all requests are served by this thread.
constexpr store::Database::Patience kPatience{.patience = std::chrono::milliseconds(500),
                                              .rest = std::chrono::seconds(2)};

}  // namespace

Task<> restore(Services& services, keeper::KeeperLink keeper) {
  sweep_files(services);
  sweep_spool(services);
  read_callbacks(services);
  read_executions(services);
  co_await adopt_sandboxes(services, std::move(keeper));
  services.networks.connect(std::move(services.options.egress));
  co_await services.networks.restore();
  services.store->set_patience(kPatience);
  services.jobs.adopt();  // executions whose processes were found alive go on
  services.registry.journal().end_unfinished();
  services.tasks.spawn("sweep templates", sweep_templates(services));
  services.registry.pool().open(pool_options(*services.config()));
  watch_pool(services);
}

}  // namespace cove::server
