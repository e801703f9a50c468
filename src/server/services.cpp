#include "server/services.hpp"

#include <fcntl.h>

#include "server/host_launch.hpp"

namespace cove::server {
namespace {

sandbox::Registry::Options registry_options(const FrontOptions& options, const config::Live& config,
                                            SupervisorLink& supervisor, const Log& log) {
  const bool shared = config->python.zygotes == config::ZygoteSharing::everyone;
  return {.max_sandboxes = config->max_sandboxes,
          .enforcement = options.enforcement,
          .zygotes = shared ? sandbox::ZygoteGroups::Sharing::everyone : sandbox::ZygoteGroups::Sharing::tenant,
          .host_template = host_template(),
          .ask_builder = [&supervisor](const wire::SupervisorRequest& request,
                                       std::vector<UniqueFd> fds) { return supervisor.ask(request, std::move(fds)); },
          .orphan_grace = [&config] { return config->sandbox.orphan_grace; },
          .note = [&log](std::string_view line) { log.info(line); },
          .raisable =
              [&config] {
                return sandbox::RaisableLimits{.disk_bytes = config->sandbox.max_disk_bytes,
                                               .pids = config->sandbox.max_pids};
              }};
}

network::Networks::Options network_options(const config::Live& config) {
  return {.usual = [&config] { return usual_policy(*config()).value_or(egress::Policy()); }  // checked when it was read
          ,
          .log_size = [&config] { return static_cast<std::size_t>(config->network.log_records); }};
}

tools::BrokerSettings tool_settings_with_host(Services& services) {
  auto settings = tool_settings(*services.config());
  settings.launch_on_host = [&services](std::string name) {
    return launch_on_host(services.loop.get_executor(), services.supervisor, std::move(name));
  };
  return settings;
}

UniqueFd duplicate(int fd) {
  return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

http::Router routes_of(Services& services) {
  http::Router router;
  doors::sandboxes::add_routes(router, services.sandboxes_door);
  doors::execute::add_routes(router, services.execute_door);
  doors::workspace::add_routes(router, services.workspace_door);
  doors::jupyter::add_routes(router, services.jupyter_door);
  doors::resources::add_routes(router, services.resources_door);
  mcp_http::add_routes(router, services.mcp_endpoint);
  doors::operators::add_routes(router, services.operator_door);
  return router;
}

}  // namespace

std::string message_of(std::exception_ptr exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown exception";
  }
}

Services::Services(FrontOptions front_options, std::unique_ptr<store::Store> opened_store, UniqueFd run_directory)
    : options(std::move(front_options)),
      config(options.config),
      log(config->log, std::make_shared<LogSink>(std::move(options.log))),
      store(std::move(opened_store)),
      run_dir(std::move(run_directory)),
      tasks(loop.get_executor(),
            [this](std::string_view name, std::exception_ptr exception) {
              log.error(fmt::format("task=\"{}\" failed reason=\"{}\"", name, message_of(exception)));
            }),
      gate(loop.get_executor()),
      supervisor(loop.get_executor(), std::move(options.supervisor), log),
      keys(*store, {.mode = options.needs_keys ? KeyRing::Mode::keys : KeyRing::Mode::open,
                    .own = options.own_key,
                    .tokens = token_check(*config(), options.token_keys),
                    .on_first_key = [this] { supervisor.require_keys(); }}),
      request_log(log, metrics),
      admission(loop.get_executor(), admission_options(*config(), registry), &gate),
      slots(loop.get_executor(), slot_options(*config()), &gate),
      outbound(loop.get_executor(), outbound_options(*config())),
      registry(
          loop.get_executor(), tasks, *store, run_dir.get(), registry_options(options, config, supervisor, log),
          [this](std::string_view line) { log.warn(line); }, [this] { supervisor.replace_keeper(); }),
      networks(loop.get_executor(), tasks, registry, network_options(config),
               [this](std::string_view line) { log.warn(line); }),
      callbacks(
          loop.get_executor(), tasks, *store, outbound, [this] { return callback_options(*config()); },
          [this](std::string_view line) { log.warn(line); }),
      jobs(
          registry, admission, callbacks, [this] { return history_limits(*config()); },
          [this](std::string_view line) { log.warn(line); }),
      installs(loop.get_executor(), registry, outbound, install_options(*config()),
               [this](std::string_view line) { log.warn(line); }),
      files_disk(disk_of_files(options.files.get(), options.directory)),
      spool(duplicate(options.files.get()), file_options(*config(), files_disk).reserve_bytes),
      files(*store, std::move(options.files), file_options(*config(), files_disk)),
      meter(metrics.registry()),
      listeners(loop.get_executor(), tasks, [this]() -> http::Server& { return server; }),
      core{.registry = registry,
           .admission = admission,
           .authority = keys,
           .config = config,
           .gate = gate,
           .tasks = tasks},
      tools(loop.get_executor(), core, outbound, [this] { return tool_settings_with_host(*this); }),
      tool_calls(tasks, tools),
      tool_lines(tasks, tool_calls),
      kernel_calls(registry, tools, tool_calls, tool_lines),
      sandboxes_door{core, jobs, callbacks, installs, listeners, networks, tools},
      execute_door{core, slots, files, meter, [this](std::string_view line) { log.warn(line); }},
      workspace_door{core, outbound},
      jupyter_door(core),
      resources_door{core, tools},
      mcp_door{core, installs, networks, spool, tools},
      mcp_service(loop.get_executor(), mcp_door),
      mcp_endpoint(loop.get_executor(), {.core = core, .service = mcp_service}),
      operator_door{.healthy = [this] { return !gate.closed() && !registry.keeper_lost(); },
                    .metrics = [this] { return metrics.text(); },
                    .metrics_access = config->http.metrics},
      router(routes_of(*this)),
      server(loop.get_executor(), http_options(*config()), router, keys,
             {.access_log = [this](const http::AccessRecord& record) { request_log.write(record); },
              .on_escape =
                  [this](std::string_view where, std::exception_ptr exception) {
                    log.error(fmt::format("handler=\"{}\" failed reason=\"{}\"", where, message_of(exception)));
                  },
              .warn = [this](std::string_view line) { log.warn(line); }}) {
  set_bounds(*config(), *store, registry);
}

}  // namespace cove::server
