#include "server/service_options.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>

#include "config/languages.hpp"
#include "doors/execute/door.hpp"
#include "doors/workspace/door.hpp"
#include "mcp/http/routes.hpp"

namespace cove::server {
namespace {

// Half of the descriptors: the other half is for sandboxes, files and the database.
std::size_t most_connections() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::max<std::size_t>(16, limit.rlim_cur / 2) : 1024;
}

}  // namespace

std::optional<oauth::TokenCheck> token_check(const config::Config& config, const std::string& key_set) {
  auto set = key_set.empty() ? fail(Errc::not_found, "") : oauth::read_key_set(key_set);
  if (!set) return std::nullopt;
  return oauth::TokenCheck(std::move(*set), {.issuers = config.oauth.authorization_servers,
                                             .audience = config.oauth.resource,
                                             .scopes = config.oauth.scopes});
}

http::ServerOptions http_options(const config::Config& config) {
  http::ServerOptions options;
  options.max_connections = std::min<std::size_t>(config.http.max_connections, most_connections());
  options.max_per_peer = config.http.max_connections_per_peer;
  options.held = {.of_one = config.http.tenant_memory_bytes, .of_all = config.http.memory_bytes};
  options.allowed_hosts = config.http.allowed_hosts;
  options.allowed_origins = config.http.allowed_origins;
  // Where everybody may connect, the names a server is known by are the operator's to list; the key is the lock.
  options.challenge = mcp_http::token_challenge(config.oauth);
  options.scope_header = "X-Cove-Sandbox";
  options.unknown_scope = [](std::string_view name) { return fmt::format("sandbox not found: {}", name); };
  options.check_host = config.listen.loopback() || !config.http.allowed_hosts.empty();
  return options;
}

sandbox::Admission::Options admission_options(const config::Config& config, const sandbox::Registry& registry) {
  return {.at_once = config.exec.max_concurrent,
          .waiting = config.exec.max_queued,
          .background = [&registry](const std::string& tenant) { return registry.background_of(tenant); }};
}

Result<egress::Policy> usual_policy(const config::Config& config) {
  constexpr std::array<std::string_view, 3> kModes{"none", "allow", "public"};
  const boost::json::object text{{"mode", kModes.at(static_cast<std::size_t>(config.network.mode))},
                                 {"allow", boost::json::value_from(config.network.allow)},
                                 {"deny", boost::json::value_from(config.network.deny)}};
  return egress::parse_policy(text, "network");
}

// The pool holds what is asked for most: a sandbox of the default limits, a session, a run, a handler.
sandbox::Pool::Options pool_options(const config::Config& config) {
  const jail::Limits plain{.memory_bytes = config.sandbox.memory_bytes,
                           .disk_bytes = std::min(config.sandbox.disk_for(config.sandbox.memory_bytes),
                                                  sandbox::most_disk_bytes(config.sandbox.memory_bytes)),
                           .inodes = config.sandbox.inodes,
                           .pids = config.sandbox.pids,
                           .cpu_millis = config.sandbox.cpu_millis};
  const auto size = config.pool.size;
  const auto handlers = size == 0 ? 0 : config.workspace.handler_pool;
  using Content = sandbox::Pool::Content;
  const auto program = config.python.warm ? Content::program : Content::nothing;
  const auto kernel = config.python.warm ? Content::kernel : Content::nothing;
  sandbox::Pool::Options options{.age = config.python.zygote_age,
                                 .tenant_bound = config.pool.tenant_interpreters,
                                 .tenant_idle = config.pool.tenant_idle};
  options.kinds.push_back({.name = "sandbox", .limits = plain, .size = size});
  options.kinds.push_back({.name = "session", .limits = plain, .content = kernel, .size = size});
  const auto executes = doors::execute::limits_of(config);
  const bool light = config.python.warm && config.python.light;
  if (light)
    options.kinds.push_back({.name = "execute", .limits = executes, .content = Content::light_program, .size = size});
  options.kinds.push_back(
      {.name = light ? "execute_full" : "execute", .limits = executes, .content = program, .size = size});
  options.kinds.push_back(
      {.name = "handler", .limits = doors::workspace::handler_limits(config), .content = program, .size = handlers});
  return options;
}

jobs::Callbacks::Options callback_options(const config::Config& config) {
  jobs::Callbacks::Options options{.attempts = config.callbacks.attempts,
                                   .backoff = config.callbacks.backoff,
                                   .timeout = config.callbacks.timeout,
                                   .max_size_bytes = config.callbacks.max_size_bytes,
                                   .tenant_concurrent = config.callbacks.tenant_concurrent,
                                   .max_concurrent = config.callbacks.max_concurrent};
  options.pending = {
      .tenant = {.count = config.callbacks.tenant_pending, .bytes = config.callbacks.tenant_pending_bytes},
      .all = {.count = config.callbacks.max_pending, .bytes = config.callbacks.max_pending_bytes}};
  for (const auto& text : config.callbacks.allow) {
    if (auto endpoint = outbound::parse_host_port(text)) options.reach.allowed.push_back(std::move(*endpoint));
  }
  return options;
}

jobs::ExecutionHistory::Limits history_limits(const config::Config& config) {
  jobs::ExecutionHistory::Limits limits{.sandbox_count = config.exec.history};
  limits.bytes.tenant.bytes = config.exec.tenant_history_bytes;
  limits.bytes.all.bytes = config.exec.max_history_bytes;
  return limits;
}

packages::Installs::Options install_options(const config::Config& config) {
  return {.tenant_concurrent = config.dependencies.tenant_concurrent,
          .max_concurrent = config.dependencies.max_concurrent};
}

Result<> check_services(const config::Config& config) {
  COVE_TRY([[maybe_unused]] const auto policy, usual_policy(config));
  for (const auto& [name, text] : config.tools.named) {
    if (const auto parsed = tools::parse_named(name, text); !parsed)
      return fail(Errc::invalid, fmt::format("[tools.{}]: {}", name, parsed.error().message));
  }
  for (const auto& place : config.tools.allow) {
    if (const auto parsed = outbound::parse_host_port(place); !parsed)
      return fail(Errc::invalid, fmt::format("tools.allow: {}", parsed.error().message));
  }
  return {};
}

tools::BrokerSettings tool_settings(const config::Config& config) {
  const auto& tools = config.tools;
  return {.allow_loopback = tools.allow_loopback,
          .allow = tools.allow,
          .variables = tools.variables,
          .approval_timeout = tools.approval_timeout,
          .servers = tools.servers,
          .concurrent = tools.concurrent,
          .rate = tools.rate,
          .result_bytes = tools.result_bytes,
          .log_records = tools.log_records,
          .launch_on_host = {},
          .named = tools.named};
}

outbound::Options outbound_options(const config::Config& config) {
  const auto& outbound = config.outbound;
  outbound::Options options{.ca_file = outbound.ca_file};
  options.lookups = {.tenant_running = outbound.tenant_lookups,
                     .max_running = outbound.max_lookups,
                     .tenant_waiting = outbound.tenant_lookup_queue,
                     .max_waiting = outbound.max_lookup_queue,
                     .timeout = outbound.lookup_timeout};
  return options;
}

FilesDisk disk_of_files(int files_fd, const std::string& database_directory) {
  struct stat files{};
  struct stat database{};
  const bool known = ::fstat(files_fd, &files) == 0 && ::stat(database_directory.c_str(), &database) == 0;
  return known && files.st_dev != database.st_dev ? FilesDisk::own : FilesDisk::with_database;
}

store::FileStore::Options file_options(const config::Config& config, FilesDisk disk) {
  const auto& files = config.files;
  store::FileStore::Options options{.ttl = files.ttl};
  options.kept = {.tenant = {.count = files.tenant_count, .bytes = files.tenant_bytes},
                  .all = {.count = files.max_total_count, .bytes = files.max_total_bytes}};
  options.reserve_bytes = disk == FilesDisk::with_database ? files.reserve_bytes : 0;
  return options;
}

sandbox::Admission::Options slot_options(const config::Config& config) {
  return {.at_once = config.execute.max_concurrent,
          .waiting = 10'000,
          .patience = config.execute.queue_timeout,
          .keeps_some_free = false};
}

store::TemplateRow host_template() {
  store::TemplateRow host{.name = std::string(templates::kHostTemplate), .status = "ready", .kernels = true};
  boost::json::array names;
  const auto languages = config::Languages::built_in();
  for (const auto& language : languages ? languages->all() : std::span<const config::Language>()) {
    if (config::installed(language, [](const std::string& path) { return ::access(("/" + path).c_str(), X_OK) == 0; }))
      names.emplace_back(language.name);
  }
  host.languages_json = boost::json::serialize(names);
  return host;
}

void set_bounds(const config::Config& config, store::Store& store, sandbox::Registry& registry) {
  const auto& answers = config.idempotency;
  store.idempotency().set_bounds({.tenant = {.count = answers.tenant_count, .bytes = answers.tenant_bytes},
                                  .all = {.count = answers.max_count, .bytes = answers.max_bytes}});
  UsageBounds events;
  events.tenant.count = config.events.tenant_count;
  events.all.count = config.events.max_count;
  store.events().set_bounds(events);
  const auto& journal = config.journal;
  store.activity().set_bounds({.tenant = {.count = journal.tenant_count, .bytes = journal.tenant_bytes},
                               .all = {.count = journal.max_count, .bytes = journal.max_bytes}});
  registry.journal().set({.enabled = journal.enabled, .repeat_bytes = journal.act_bytes});
  UsageBounds recent;
  recent.tenant.bytes = config.exec.tenant_recent_bytes;
  recent.all.bytes = config.exec.max_recent_bytes;
  registry.kernels().set_recent_bounds(recent);
}

}  // namespace cove::server
