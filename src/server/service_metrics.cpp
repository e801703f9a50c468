#include "server/service_metrics.hpp"

namespace cove::server {

void describe_metrics(Services& services) {
  auto& metrics = services.metrics;
  metrics.watch("cove_sandboxes", "Sandboxes there are",
                [&services] { return static_cast<double>(services.registry.size()); });
  metrics.watch("cove_executions_running", "Executions running now",
                [&services] { return services.admission.inside(); });
  metrics.watch("cove_executions_waiting", "Executions waiting for a place",
                [&services] { return services.admission.waiting(); });
  metrics.watch("code_interpreter_executions_limit", "Executions that may hold a slot at once",
                [&services] { return services.config->execute.max_concurrent; });
  metrics.watch("cove_http_connections", "Connections open now",
                [&services] { return static_cast<double>(services.server.connections()); });
  metrics.watch("cove_http_held_bytes", "Bytes of request bodies and answers in memory now",
                [&services] { return static_cast<double>(services.server.budget().held()); });
  metrics.watch("cove_listeners", "Listeners for one sandbox that tenants have opened",
                [&services] { return static_cast<double>(services.listeners.size()); });
  const auto& counters = services.registry.counters();
  const auto total = [&](const char* name, const char* help, const std::uint64_t& value) {
    metrics.watch_total(name, help, [&value] { return static_cast<double>(value); });
  };
  const auto& turned_away = services.server.counts();
  total("cove_http_connections_refused_total", "Connections refused because too many were open", turned_away.refused);
  total("cove_http_connections_evicted_total", "Idle connections closed to make room for new ones",
        turned_away.evicted);
  total("cove_http_revoked_total", "Requests ended because their key or token was revoked or expired",
        turned_away.revoked);
  metrics.watch_total("cove_http_held_refused_total", "Requests refused because too many bytes were in memory",
                      [&services] { return static_cast<double>(services.server.budget().refused()); });
  metrics.watch_total("cove_log_lines_lost_total", "Log lines dropped because the log is read too slowly",
                      [&services] { return static_cast<double>(services.log.sink()->lost()); });
  total("cove_sandboxes_created_total", "Sandboxes made", counters.created);
  total("cove_sandboxes_deleted_total", "Sandboxes ended, for whatever reason", counters.deleted);
  total("cove_sandboxes_expired_total", "Sandboxes ended because their time was over", counters.expired);
  total("cove_sandboxes_lost_total", "Sandboxes that ended unexpectedly", counters.lost);
  total("cove_sandboxes_adopted_total", "Sandboxes taken over from the server before", counters.adopted);
  metrics.watch("cove_callbacks_pending", "Callbacks that are neither delivered nor given up",
                [&services] { return static_cast<double>(services.callbacks.pending().count); });
  metrics.watch("cove_callbacks_pending_bytes", "Bytes of callbacks that are neither delivered nor given up",
                [&services] { return static_cast<double>(services.callbacks.pending().bytes); });
  metrics.watch("cove_callbacks_sending", "Callbacks that are being sent now",
                [&services] { return static_cast<double>(services.callbacks.sending()); });
  const auto& callbacks = services.callbacks.counters();
  total("cove_callback_attempts_total", "Attempts to deliver a callback", callbacks.attempts);
  total("cove_callback_bodies_read_total", "Bodies of callbacks read from the store", callbacks.bodies_read);
  total("cove_callbacks_delivered_total", "Callbacks accepted by their receiver", callbacks.delivered);
  total("cove_callbacks_failed_total", "Callbacks that were given up", callbacks.failed);
  total("cove_callbacks_refused_total", "Executions refused because too many callbacks were pending",
        callbacks.refused);
  total("cove_callbacks_shortened_total", "Callbacks sent without output because too many bytes were pending",
        callbacks.shortened);
  metrics.watch("cove_files_kept", "Files that tenants keep",
                [&services] { return static_cast<double>(services.files.kept().count); });
  metrics.watch("cove_files_kept_bytes", "Bytes of files that tenants keep",
                [&services] { return static_cast<double>(services.files.kept().bytes); });
  total("cove_files_refused_total", "Files refused because of a bound", services.files.refused());
  total("cove_files_omitted_total", "Files of runs that were not kept because they were too many for one run",
        services.execute_door.files_omitted);
  metrics.watch("cove_execution_history", "Asynchronous executions that are remembered",
                [&services] { return static_cast<double>(services.jobs.history().held().count); });
  metrics.watch("cove_execution_history_bytes", "Bytes of asynchronous executions that are remembered",
                [&services] { return static_cast<double>(services.jobs.history().held().bytes); });
  total("cove_execution_history_evicted_total", "Asynchronous executions forgotten because of a bound of bytes",
        services.jobs.history().evicted());
  metrics.watch("cove_kernel_recent_bytes", "Bytes of executions in kernels that are over and can be read again",
                [&services] { return static_cast<double>(services.registry.kernels().recent().bytes); });
  total("cove_kernel_recent_evicted_total", "Executions in kernels forgotten because of a bound of bytes",
        services.registry.kernels().recent_evicted());
  metrics.watch("cove_installs_running", "Installs of packages that run",
                [&services] { return services.installs.running(); });
  metrics.watch("cove_installs_waiting", "Installs of packages that wait for their turn",
                [&services] { return services.installs.waiting(); });
  metrics.watch("cove_networks", "Sandboxes that have a way out",
                [&services] { return static_cast<double>(services.networks.open_networks()); });
  const auto& network = services.networks.counters();
  total("cove_network_allowed_total", "Names and connections of sandboxes that were allowed", network.allowed);
  total("cove_network_denied_total", "Names and connections of sandboxes that were denied", network.denied);
  total("cove_network_bytes_in_total", "Bytes that sandboxes received from outside, of connections that are over",
        network.bytes_in);
  total("cove_network_bytes_out_total", "Bytes that sandboxes sent outside, of connections that are over",
        network.bytes_out);
  total("cove_network_records_lost_total", "Decisions that came too fast to be written down", network.lost);
  metrics.watch("cove_tool_servers", "Tool servers that are registered in sandboxes",
                [&services] { return static_cast<double>(services.tools.servers()); });
  metrics.watch("cove_tool_calls_running", "Calls of tools that run",
                [&services] { return static_cast<double>(services.tools.running()); });
  metrics.watch("cove_tool_approvals_waiting", "Calls of tools that wait for approval",
                [&services] { return static_cast<double>(services.tools.approvals().count()); });
  const auto& tools = services.tools.counters();
  total("cove_tool_calls_total", "Calls of tools", tools.calls);
  total("cove_tool_calls_failed_total", "Calls of tools that came to no result", tools.failed);
  total("cove_tool_calls_refused_total", "Calls of tools that a policy or a person refused", tools.refused);
  total("cove_tool_calls_limited_total", "Calls of tools refused because of a bound", tools.limited);
  total("cove_tool_calls_retried_total", "Calls of tools made again after the server died", tools.retried);
  total("cove_tool_answers_dropped_total", "Answers that code in a sandbox did not take", tools.dropped);
  const auto& resolver = services.outbound.resolver();
  metrics.watch("cove_lookups_running", "Names that are being looked up",
                [&resolver] { return static_cast<double>(resolver.running()); });
  metrics.watch("cove_lookups_waiting", "Names that wait to be looked up",
                [&resolver] { return static_cast<double>(resolver.waiting()); });
  total("cove_lookups_total", "Names looked up", resolver.counters().begun);
  total("cove_lookups_refused_total", "Names not looked up because too many waited", resolver.counters().refused);
  total("cove_lookups_timed_out_total", "Names whose address did not come in time", resolver.counters().timed_out);
  metrics.watch("cove_idempotency_answers", "Answers kept for requests under an Idempotency-Key", [&services] {
    return static_cast<double>(services.store->idempotency().kept().value_or(Amount{}).count);
  });
  metrics.watch("cove_idempotency_bytes", "Bytes of answers kept for requests under an Idempotency-Key", [&services] {
    return static_cast<double>(services.store->idempotency().kept().value_or(Amount{}).bytes);
  });
  total("cove_idempotency_evicted_total", "Answers under an Idempotency-Key forgotten because of a bound",
        services.store->idempotency().evicted());
  metrics.watch("cove_events_kept", "Lifecycle events that are kept",
                [&services] { return static_cast<double>(services.store->events().kept().value_or(0)); });
  total("cove_events_evicted_total", "Lifecycle events forgotten because of a bound",
        services.store->events().evicted());
  metrics.watch("cove_journal_acts", "Acts that the journal keeps", [&services] {
    return static_cast<double>(services.store->activity().kept().value_or(Amount()).count);
  });
  metrics.watch("cove_journal_bytes", "Bytes of acts that the journal keeps", [&services] {
    return static_cast<double>(services.store->activity().kept().value_or(Amount()).bytes);
  });
  total("cove_journal_evicted_total", "Acts forgotten because of a bound", services.store->activity().evicted());
  total("cove_journal_dropped_total", "Acts lost because the database could not be written",
        services.registry.journal().dropped());
  metrics.watch("cove_mcp_replay_streams", "MCP event streams that can be asked for again",
                [&services] { return static_cast<double>(services.mcp_endpoint.replay().held().count); });
  metrics.watch("cove_mcp_replay_bytes", "Bytes of MCP event streams that can be asked for again",
                [&services] { return static_cast<double>(services.mcp_endpoint.replay().held().bytes); });
  total("cove_mcp_replay_evicted_total", "MCP event streams forgotten because of a bound",
        services.mcp_endpoint.replay().evicted());
  metrics.watch("cove_mcp_outputs", "Outputs of MCP executions that can be read again",
                [&services] { return static_cast<double>(services.mcp_service.outputs().held().count); });
  metrics.watch("cove_mcp_outputs_bytes", "Bytes of outputs of MCP executions that can be read again",
                [&services] { return static_cast<double>(services.mcp_service.outputs().held().bytes); });
  total("cove_mcp_outputs_evicted_total", "Outputs of MCP executions forgotten because of a bound",
        services.mcp_service.outputs().evicted());
  using State = sandbox::Kernel::State;
  for (const auto state : {State::starting, State::idle, State::busy, State::dead}) {
    metrics.watch("cove_kernels", "Kernels there are",
                  [&services, state] { return static_cast<double>(services.registry.kernels().count(state)); },
                  {{"state", std::string(name_of(state))}});
  }
  for (const auto reason : guest::all_reasons()) {
    metrics.watch_total("cove_kernel_executions_total", "Executions in kernels that are over",
                        [&services, reason] { return static_cast<double>(services.registry.kernels().ended(reason)); },
                        {{"reason", std::string(name_of(reason))}});
  }
  const auto& pythons = services.registry.python_starts();
  metrics.watch_total("cove_python_starts_total", "Interpreters started: forked from a warm one, or cold",
                      [&pythons] { return static_cast<double>(pythons.warm); }, {{"birth", "warm"}});
  metrics.watch_total("cove_python_starts_total", "Interpreters started: forked from a warm one, or cold",
                      [&pythons] { return static_cast<double>(pythons.cold); }, {{"birth", "cold"}});
}

void watch_pool(Services& services) {
  auto& metrics = services.metrics;
  for (const auto& shelf : services.registry.pool().shelves()) {
    const Metrics::Labels kind{{"kind", shelf.kind.name}};
    metrics.watch(
        "cove_pool_ready", "Sandboxes ready in the pool", [&shelf] { return static_cast<double>(shelf.ready.size()); },
        kind);
    metrics.watch(
        "cove_pool_oldest_seconds", "Age of the oldest sandbox that stands ready",
        [&services, &shelf] { return static_cast<double>(services.registry.pool().oldest(shelf).count()) / 1000; },
        kind);
    metrics.watch_total(
        "cove_pool_hits_total", "Sandboxes taken from the pool", [&shelf] { return static_cast<double>(shelf.hits); },
        kind);
    metrics.watch_total(
        "cove_pool_misses_total", "Sandboxes created on request, because the pool had none",
        [&shelf] { return static_cast<double>(shelf.misses); }, kind);
    metrics.watch(
        "cove_pool_tenant_ready", "Sandboxes ready in the pools of tenants with keys",
        [&services, &shelf] { return static_cast<double>(services.registry.pool().ready_for_tenants(shelf.kind)); },
        kind);
    metrics.watch_total(
        "cove_pool_tenant_hits_total", "Interpreters for tenants with keys taken from their pools",
        [&shelf] { return static_cast<double>(shelf.tenant_hits); }, kind);
    metrics.watch_total(
        "cove_pool_tenant_misses_total",
        "Interpreters for tenants with keys created on request, because their pools had none",
        [&shelf] { return static_cast<double>(shelf.tenant_misses); }, kind);
  }
}

}  // namespace cove::server
