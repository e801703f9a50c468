// Long because it is one table: every key of the configuration.
#include "config/keys.hpp"

#include <algorithm>
#include <array>

namespace cove::config {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20;
constexpr std::uint64_t kTiB = 1ULL << 40;
constexpr std::uint64_t kSecond = 1000;
constexpr std::uint64_t kDay = 24 * 3600 * kSecond;

const auto& table() {
  using enum Kind;
  constexpr auto live = Reload::live;
  constexpr auto restart = Reload::restart;
  static const Key kKeys[] = {
      {"listen", address, "127.0.0.1:8000", restart, [](Config& c) -> auto& { return c.listen; },
       "Address and port to listen on. Any address but loopback needs keys (cove key create); port 0 picks a free "
       "port"},
      {"listeners", list, "", restart, [](Config& c) -> auto& { return c.listeners; },
       "More addresses to listen on, each for one sandbox: 127.0.0.1:8888=sandbox:NAME. The same as another --listen; "
       "port 0 picks a free port, which is logged"},
      {"state_dir", text, "", restart, [](Config& c) -> auto& { return c.state_dir; },
       "Directory for everything that outlives the server (default /var/lib/cove; without root ~/.local/state/cove)"},
      {"on_exit",
       choice,
       "destroy",
       live,
       [](Config& c) -> auto& { return c.on_exit; },
       "What a clean stop does with sandboxes: destroy them, or keep them for the next start",
       0,
       0,
       {"destroy", "keep"}},
      {"drain", duration, "30s", live, [](Config& c) -> auto& { return c.drain; },
       "How long a stop waits for running work", 0, kDay},
      {"max_sandboxes", count, "1000", live, [](Config& c) -> auto& { return c.max_sandboxes; },
       "Maximum number of sandboxes, all tenants together", 1, 1'000'000},
      {"allow_degraded", boolean, "false", restart, [](Config& c) -> auto& { return c.allow_degraded; },
       "Serve even if this host cannot enforce every limit (cove doctor lists them); results then name the missing "
       "ones"},

      {"log.level",
       choice,
       "info",
       live,
       [](Config& c) -> auto& { return c.log.level; },
       "Lowest level to log: debug, info, warn or error",
       0,
       0,
       {"debug", "info", "warn", "error"}},
      {"log.format",
       choice,
       "text",
       live,
       [](Config& c) -> auto& { return c.log.format; },
       "Log format: key=value pairs (text), or one JSON object per line (json)",
       0,
       0,
       {"text", "json"}},
      {"log.access", boolean, "true", live, [](Config& c) -> auto& { return c.log.access; }, "Log every request"},

      {"http.allowed_hosts", list, "", live, [](Config& c) -> auto& { return c.http.allowed_hosts; },
       "Host names to accept besides localhost and the listen address: name or name:port"},
      {"http.allowed_origins", list, "", live, [](Config& c) -> auto& { return c.http.allowed_origins; },
       "Origins of web pages that may call the API, such as https://console.example.org; the server's own pages always "
       "may"},
      {"http.max_connections", count, "10000", live, [](Config& c) -> auto& { return c.http.max_connections; },
       "Maximum number of open connections", 1, 1'000'000},
      {"http.max_connections_per_peer", count, "2000", live,
       [](Config& c) -> auto& { return c.http.max_connections_per_peer; },
       "Maximum number of open connections from one address; 0 means no limit, for use behind a proxy", 0, 1'000'000},
      {"http.memory", size, "1G", live, [](Config& c) -> auto& { return c.http.memory_bytes; },
       "Memory for request bodies, inputs and responses, all tenants together; beyond it requests get 503", 16 * kMiB,
       kTiB},
      {"http.tenant_memory", size, "256M", live, [](Config& c) -> auto& { return c.http.tenant_memory_bytes; },
       "The same for one tenant; beyond it requests get 429", 16 * kMiB, kTiB},
      {"http.max_body", size, "16M", live, [](Config& c) -> auto& { return c.http.max_body_bytes; },
       "Largest request body, except for uploads", 1024, kTiB},
      {"http.metrics",
       choice,
       "key",
       live,
       [](Config& c) -> auto& { return c.http.metrics; },
       "Who may read /metrics: holders of a key (key), or anyone on this machine (loopback)",
       0,
       0,
       {"key", "loopback"}},

      {"sandbox.memory", size, "1G", live, [](Config& c) -> auto& { return c.sandbox.memory_bytes; },
       "Default memory of a sandbox", 8 * kMiB, 16 * kTiB},
      {"sandbox.max_memory", size, "8G", live, [](Config& c) -> auto& { return c.sandbox.max_memory_bytes; },
       "Most memory a sandbox may request", 8 * kMiB, 16 * kTiB},
      {"sandbox.disk", size, "0", live, [](Config& c) -> auto& { return c.sandbox.disk_bytes; },
       "Default disk space of a sandbox; 0 means half of its memory, in which its files live", 0, 16 * kTiB},
      {"sandbox.max_disk", size, "4G", live, [](Config& c) -> auto& { return c.sandbox.max_disk_bytes; },
       "Most disk space a sandbox may request", kMiB / 4, 16 * kTiB},
      {"sandbox.inodes", count, "65536", live, [](Config& c) -> auto& { return c.sandbox.inodes; },
       "Default number of files and directories in a sandbox", 1024, 1'000'000'000},
      {"sandbox.max_inodes", count, "1000000", live, [](Config& c) -> auto& { return c.sandbox.max_inodes; },
       "Most files and directories a sandbox may request", 1024, 1'000'000'000},
      {"sandbox.pids", count, "256", live, [](Config& c) -> auto& { return c.sandbox.pids; },
       "Default number of processes and threads in a sandbox", 2, 1'000'000},
      {"sandbox.max_pids", count, "4096", live, [](Config& c) -> auto& { return c.sandbox.max_pids; },
       "Most processes and threads a sandbox may request", 2, 1'000'000},
      {"sandbox.cpus", cores, "1", live, [](Config& c) -> auto& { return c.sandbox.cpu_millis; },
       "Default number of cores of a sandbox, such as 0.5 or 2", 10, 1'024'000},
      {"sandbox.max_cpus", cores, "0", live, [](Config& c) -> auto& { return c.sandbox.max_cpu_millis; },
       "Most cores a sandbox may request; 0 means all cores of this machine", 0, 1'024'000},
      {"sandbox.ttl", duration, "15m", live, [](Config& c) -> auto& { return c.sandbox.ttl; },
       "Default time an unused sandbox lives", kSecond, 365 * kDay},
      {"sandbox.max_ttl", duration, "7d", live, [](Config& c) -> auto& { return c.sandbox.max_ttl; },
       "Longest lifetime a sandbox may request", kSecond, 365 * kDay},
      {"sandbox.orphan_grace", duration, "5m", live, [](Config& c) -> auto& { return c.sandbox.orphan_grace; },
       "How long sandboxes outlive their TTL after the server was killed and not restarted; then they end themselves",
       kSecond, 365 * kDay},
      {"sandbox.strict_images", boolean, "false", live, [](Config& c) -> auto& { return c.sandbox.strict_images; },
       "Reject images that [images] does not list, instead of using the host template with a warning"},

      {"exec.timeout", duration, "30s", live, [](Config& c) -> auto& { return c.exec.timeout; },
       "Default timeout of an execution", 1, 365 * kDay},
      {"exec.max_timeout", duration, "1h", live, [](Config& c) -> auto& { return c.exec.max_timeout; },
       "Longest timeout of an execution; longer requests are shortened to it", 1, 365 * kDay},
      {"exec.output_limit", size, "1M", live, [](Config& c) -> auto& { return c.exec.output_limit_bytes; },
       "Bytes to keep of stdout and of stderr; the rest is dropped and counted", 0, 1ULL << 30},
      {"exec.max_concurrent", count, "256", live, [](Config& c) -> auto& { return c.exec.max_concurrent; },
       "Maximum number of concurrent executions, all tenants together", 1, 1'000'000},
      {"exec.max_queued", count, "1024", live, [](Config& c) -> auto& { return c.exec.max_queued; },
       "Maximum number of queued executions; beyond it requests get 429", 0, 1'000'000},
      {"exec.history", count, "100", live, [](Config& c) -> auto& { return c.exec.history; },
       "Number of asynchronous executions to remember for each sandbox, up to 16 MiB in total", 1, 10'000},
      {"exec.tenant_history_size", size, "256M", live, [](Config& c) -> auto& { return c.exec.tenant_history_bytes; },
       "Bytes of code and results to remember for one tenant; beyond it the oldest are dropped", kMiB, 16 * kTiB},
      {"exec.max_history_size", size, "4G", live, [](Config& c) -> auto& { return c.exec.max_history_bytes; },
       "The same for all tenants together; beyond it the largest tenant loses its oldest", kMiB, 16 * kTiB},
      {"exec.tenant_recent_size", size, "64M", live, [](Config& c) -> auto& { return c.exec.tenant_recent_bytes; },
       "Bytes of finished kernel executions to keep in memory for one tenant; beyond it the oldest are dropped", kMiB,
       16 * kTiB},
      {"exec.max_recent_size", size, "256M", live, [](Config& c) -> auto& { return c.exec.max_recent_bytes; },
       "The same for all tenants together; beyond it the largest tenant loses its oldest", kMiB, 16 * kTiB},

      {"upload.max_body", size, "256M", live, [](Config& c) -> auto& { return c.upload.max_body_bytes; },
       "Largest archive or single file that may be uploaded", 1024, 16 * kTiB},
      {"upload.max_unpacked", size, "1G", live, [](Config& c) -> auto& { return c.upload.max_unpacked_bytes; },
       "Largest unpacked size of an archive", 1024, 16 * kTiB},
      {"upload.max_members", count, "100000", live, [](Config& c) -> auto& { return c.upload.max_members; },
       "Most files and directories in an archive", 1, 100'000'000},
      {"upload.max_depth", count, "64", live, [](Config& c) -> auto& { return c.upload.max_depth; },
       "Deepest directory nesting in an archive", 1, 2048},
      {"upload.max_ratio", count, "1000", live, [](Config& c) -> auto& { return c.upload.max_ratio; },
       "Highest compression ratio of an archive", 1, 1'000'000},

      {"python.warm", boolean, "true", restart, [](Config& c) -> auto& { return c.python.warm; },
       "Fork Python sessions from a preloaded interpreter; false starts a new interpreter for each session, which is "
       "slower but shares no memory layout"},
      {"python.preload", list, "IPython,numpy,pandas,matplotlib.pyplot,openpyxl,PIL.Image", restart,
       [](Config& c) -> auto& { return c.python.preload; }, "Modules that preloaded interpreters import, if installed"},
      {"python.zygote_births", count, "200", restart, [](Config& c) -> auto& { return c.python.zygote_births; },
       "Replace a preloaded interpreter after this many sessions", 1, 1'000'000},
      {"python.zygote_age", duration, "10m", restart, [](Config& c) -> auto& { return c.python.zygote_age; },
       "Replace a preloaded interpreter at this age", kSecond, kDay},

      {"python.zygotes",
       choice,
       "tenant",
       restart,
       [](Config& c) -> auto& { return c.python.zygotes; },
       "Which sessions share a preloaded interpreter, and with it a hash seed and memory layout: those of one tenant, "
       "or everyone's, which takes less memory",
       0,
       0,
       {"tenant", "everyone"}},

      {"pool.size", count, "4", live, [](Config& c) -> auto& { return c.pool.size; },
       "Number of sandboxes of each kind to keep ready; 0 turns the pool off", 0, 10'000},
      {"pool.tenant_interpreters", count, "8", live, [](Config& c) -> auto& { return c.pool.tenant_interpreters; },
       "Number of interpreters to keep ready for tenants with keys, all tenants together; each is of one tenant alone",
       0, 10'000},
      {"pool.tenant_idle", duration, "5m", live, [](Config& c) -> auto& { return c.pool.tenant_idle; },
       "Keep no interpreter ready for a tenant that has asked for none for so long", kSecond, kDay},
      {"execute.max_timeout", duration, "60s", live, [](Config& c) -> auto& { return c.execute.max_timeout; },
       "Longest timeout for /v1/execute and for commands in sessions", 1, 365 * kDay},
      {"execute.output_limit", size, "1000000", live, [](Config& c) -> auto& { return c.execute.output_limit_bytes; },
       "Bytes of stdout and of stderr that /v1/execute keeps", 0, 64 * kMiB},
      {"execute.cpu_time", duration, "5s", live, [](Config& c) -> auto& { return c.execute.cpu_time; },
       "CPU time limit of each process in a run; beyond it the process is killed", kSecond, 365 * kDay},
      {"execute.memory", size, "256M", live, [](Config& c) -> auto& { return c.execute.memory_bytes; },
       "Memory of a run or session, including the files it writes", 16 * kMiB, 16 * kTiB},
      {"execute.max_concurrent", count, "16", live, [](Config& c) -> auto& { return c.execute.max_concurrent; },
       "Maximum number of concurrent runs and session commands, all tenants together", 1, 1'000'000},
      {"execute.queue_timeout", duration, "5s", live, [](Config& c) -> auto& { return c.execute.queue_timeout; },
       "How long a run waits in the queue before it gets 429; 0 means no waiting", 0, kDay},
      {"execute.retry_after", duration, "2s", live, [](Config& c) -> auto& { return c.execute.retry_after; },
       "Retry-After of a 429 response", 0, kDay},
      {"execute.capacity_retry_after", duration, "10s", live,
       [](Config& c) -> auto& { return c.execute.capacity_retry_after; },
       "Retry-After when no sandbox could be created", 0, kDay},
      {"execute.check_timeout", duration, "2.5s", live, [](Config& c) -> auto& { return c.execute.check_timeout; },
       "How long /ready waits for the server's own parts to respond", 1, kDay},
      {"execute.reported_version",
       choice,
       "off",
       live,
       [](Config& c) -> auto& { return c.execute.reported_version; },
       "What /health reports: only \"ok\" (off), or the response of a code interpreter of this version. Onyx needs "
       "0.4.0 or later to use sessions",
       0,
       0,
       {"off", "0.3.3", "0.4.4", "0.4.8"}},

      {"files.directory", text, "", restart, [](Config& c) -> auto& { return c.files.directory; },
       "Directory for the files of /v1/files (default: inside state_dir); it must be empty or one that Cove already "
       "uses"},
      {"files.max_size", size, "100M", live, [](Config& c) -> auto& { return c.files.max_size_bytes; },
       "Largest file that /v1/files accepts", kMiB, 16 * kTiB},
      {"files.tenant_size", size, "2G", live, [](Config& c) -> auto& { return c.files.tenant_bytes; },
       "Bytes of stored files for one tenant; beyond it uploads get 507", kMiB, 16 * kTiB},
      {"files.tenant_count", count, "10000", live, [](Config& c) -> auto& { return c.files.tenant_count; },
       "Number of stored files for one tenant; beyond it uploads get 507", 1, 100'000'000},
      {"files.max_total_size", size, "10G", live, [](Config& c) -> auto& { return c.files.max_total_bytes; },
       "Bytes of stored files, all tenants together", kMiB, 16 * kTiB},
      {"files.max_total_count", count, "100000", live, [](Config& c) -> auto& { return c.files.max_total_count; },
       "Number of stored files, all tenants together", 1, 100'000'000},
      {"files.run_count", count, "5000", live, [](Config& c) -> auto& { return c.files.run_count; },
       "Number of files to keep from one run of /v1/execute; the response counts the ones left out", 1, 1'000'000},
      {"files.reserve", size, "256M", live, [](Config& c) -> auto& { return c.files.reserve_bytes; },
       "Free disk space to leave for the database, if it shares the file system with stored files", 0, 16 * kTiB},
      {"files.ttl", duration, "1h", live, [](Config& c) -> auto& { return c.files.ttl; }, "How long a file is kept",
       kSecond, 3650 * kDay},

      {"templates.build_timeout", duration, "15m", live, [](Config& c) -> auto& { return c.templates.build_timeout; },
       "Longest time a template build may take", kSecond, kDay},
      {"templates.build_size", size, "8G", live, [](Config& c) -> auto& { return c.templates.build_size_bytes; },
       "Disk space a template build may take; one that takes more is ended", kMiB, 16 * kTiB},

      {"outbound.ca_file", text, "", restart, [](Config& c) -> auto& { return c.outbound.ca_file; },
       "CA certificates (PEM) to trust for outgoing https requests (default: the system's)"},
      {"outbound.tenant_lookups", count, "2", restart, [](Config& c) -> auto& { return c.outbound.tenant_lookups; },
       "Concurrent DNS lookups for one tenant", 1, 64},
      {"outbound.max_lookups", count, "16", restart, [](Config& c) -> auto& { return c.outbound.max_lookups; },
       "Concurrent DNS lookups, all tenants together; each uses a thread", 1, 64},
      {"outbound.tenant_lookup_queue", count, "64", restart,
       [](Config& c) -> auto& { return c.outbound.tenant_lookup_queue; },
       "Queued DNS lookups for one tenant; beyond it requests fail", 1, 100'000},
      {"outbound.max_lookup_queue", count, "1024", restart,
       [](Config& c) -> auto& { return c.outbound.max_lookup_queue; },
       "Queued DNS lookups, all tenants together; beyond it requests fail", 1, 100'000},
      {"outbound.lookup_timeout", duration, "5s", restart, [](Config& c) -> auto& { return c.outbound.lookup_timeout; },
       "DNS lookup timeout", kSecond, 60 * kSecond},

      {"oauth.authorization_servers", list, "", restart,
       [](Config& c) -> auto& { return c.oauth.authorization_servers; },
       "Authorization servers whose tokens are accepted besides API keys, such as https://auth.example.org"},
      {"oauth.resource", text, "", restart, [](Config& c) -> auto& { return c.oauth.resource; },
       "This server's URL as tokens name it in \"aud\", such as https://cove.example.org/mcp"},
      {"oauth.scopes", list, "", restart, [](Config& c) -> auto& { return c.oauth.scopes; },
       "Scopes that a token must have"},
      {"oauth.keys_file", text, "", restart, [](Config& c) -> auto& { return c.oauth.keys_file; },
       "JWK set file with the public keys that sign tokens: RSA, P-256 or Ed25519"},

      {"events.tenant_count", count, "10000", live, [](Config& c) -> auto& { return c.events.tenant_count; },
       "Number of lifecycle events to keep for one tenant; beyond it the oldest are dropped, and /v1/events reports "
       "the gap",
       1, 10'000'000},
      {"events.max_count", count, "100000", live, [](Config& c) -> auto& { return c.events.max_count; },
       "The same for all tenants together; beyond it the largest tenant loses its oldest", 1, 10'000'000},

      {"idempotency.tenant_count", count, "10000", live, [](Config& c) -> auto& { return c.idempotency.tenant_count; },
       "Number of responses to keep, for a day, for one tenant's requests with an Idempotency-Key; beyond it the "
       "oldest are dropped",
       1, 10'000'000},
      {"idempotency.max_count", count, "100000", live, [](Config& c) -> auto& { return c.idempotency.max_count; },
       "The same for all tenants together; beyond it the largest tenant loses its oldest", 1, 10'000'000},
      {"idempotency.tenant_size", size, "16M", live, [](Config& c) -> auto& { return c.idempotency.tenant_bytes; },
       "Bytes of these responses for one tenant", 64 * 1024, 16 * kTiB},
      {"idempotency.max_size", size, "256M", live, [](Config& c) -> auto& { return c.idempotency.max_bytes; },
       "Bytes of these responses, all tenants together", 64 * 1024, 16 * kTiB},

      {"callbacks.allow", list, "", live, [](Config& c) -> auto& { return c.callbacks.allow; },
       "Hosts with private addresses that callbacks may be sent to, such as hooks.internal:8080"},
      {"callbacks.attempts", count, "6", live, [](Config& c) -> auto& { return c.callbacks.attempts; },
       "Number of attempts to deliver a callback", 1, 100},
      {"callbacks.backoff", duration, "2s", live, [](Config& c) -> auto& { return c.callbacks.backoff; },
       "Delay before the second attempt; it doubles with each further one", 1, kDay},
      {"callbacks.timeout", duration, "10s", live, [](Config& c) -> auto& { return c.callbacks.timeout; },
       "Timeout of one attempt", 1, 600 * kSecond},
      {"callbacks.max_size", size, "1M", live, [](Config& c) -> auto& { return c.callbacks.max_size_bytes; },
       "Largest callback body; a larger result is sent without its output", 1024, 64 * kMiB},
      {"callbacks.tenant_concurrent", count, "4", live,
       [](Config& c) -> auto& { return c.callbacks.tenant_concurrent; }, "Concurrent callbacks for one tenant", 1,
       1000},
      {"callbacks.max_concurrent", count, "32", live, [](Config& c) -> auto& { return c.callbacks.max_concurrent; },
       "Concurrent callbacks, all tenants together", 1, 10'000},
      {"callbacks.tenant_pending", count, "1024", live, [](Config& c) -> auto& { return c.callbacks.tenant_pending; },
       "Pending callbacks for one tenant, including those of unfinished executions; beyond it new executions with a "
       "callback get 429",
       1, 1'000'000},
      {"callbacks.max_pending", count, "16384", live, [](Config& c) -> auto& { return c.callbacks.max_pending; },
       "Pending callbacks, all tenants together; beyond it new executions with a callback get 503", 1, 1'000'000},
      {"callbacks.tenant_pending_size", size, "64M", live,
       [](Config& c) -> auto& { return c.callbacks.tenant_pending_bytes; },
       "Bytes of pending callbacks for one tenant; near it results are sent without their output, beyond it new "
       "executions with a callback get 429",
       64 * 1024, 16 * kTiB},
      {"callbacks.max_pending_size", size, "1G", live, [](Config& c) -> auto& { return c.callbacks.max_pending_bytes; },
       "Bytes of pending callbacks, all tenants together; beyond it new executions with a callback get 503", 64 * 1024,
       16 * kTiB},

      {"dependencies.index", text, "", live, [](Config& c) -> auto& { return c.dependencies.index; },
       "Default package index (PEP 503): public for the one that pip itself would ask, or a URL such as "
       "https://index.example.org/simple; if empty, callers must name one"},
      {"dependencies.allow", list, "", live, [](Config& c) -> auto& { return c.dependencies.allow; },
       "Hosts with private addresses that callers may use as an index, or that index pages may link to, such as "
       "index.internal:8080"},
      {"dependencies.timeout", duration, "5m", live, [](Config& c) -> auto& { return c.dependencies.timeout; },
       "Default timeout of an install", kSecond, kDay},
      {"dependencies.max_timeout", duration, "30m", live, [](Config& c) -> auto& { return c.dependencies.max_timeout; },
       "Longest timeout of an install", kSecond, kDay},
      {"dependencies.max_download", size, "512M", live,
       [](Config& c) -> auto& { return c.dependencies.max_download_bytes; }, "Bytes that one install may download",
       1024, 16 * kTiB},
      {"dependencies.tenant_concurrent", count, "4", live,
       [](Config& c) -> auto& { return c.dependencies.tenant_concurrent; },
       "Concurrent installs for one tenant; more are queued", 1, 10'000},
      {"dependencies.max_concurrent", count, "16", live,
       [](Config& c) -> auto& { return c.dependencies.max_concurrent; },
       "Concurrent installs, all tenants together; more are queued", 1, 10'000},

      {"workspace.expiration", duration, "24h", live, [](Config& c) -> auto& { return c.workspace.expiration; },
       "Lifetime of a /workspace/se session from its creation, even if it is in use", kSecond, 365 * kDay},
      {"workspace.size", size, "100M", live, [](Config& c) -> auto& { return c.workspace.size_bytes; },
       "Default disk space of a session", kMiB / 4, 16 * kTiB},
      {"workspace.memory", size, "512M", live, [](Config& c) -> auto& { return c.workspace.memory_bytes; },
       "Memory of a session's programs, in addition to its files", 16 * kMiB, 16 * kTiB},
      {"workspace.timeout", duration, "5m", live, [](Config& c) -> auto& { return c.workspace.timeout; },
       "Timeout of a command or script in a session, and the default timeout of a handler", kSecond, kDay},
      {"workspace.network", boolean, "false", live, [](Config& c) -> auto& { return c.workspace.network; },
       "Request network access for sessions and handlers; Cove has none to give, so true only logs a warning"},
      {"workspace.handler_cpus", cores, "2", live, [](Config& c) -> auto& { return c.workspace.handler_cpu_millis; },
       "Cores of a handler", 10, 1'024'000},
      {"workspace.handler_memory", size, "128M", live,
       [](Config& c) -> auto& { return c.workspace.handler_memory_bytes; },
       "Memory of a handler, including the files it writes", 16 * kMiB, 16 * kTiB},
      {"workspace.handler_processes", count, "10", live,
       [](Config& c) -> auto& { return c.workspace.handler_processes; }, "Processes and threads of a handler", 2,
       1'000'000},
      {"workspace.handler_pool", count, "2", live, [](Config& c) -> auto& { return c.workspace.handler_pool; },
       "Number of sandboxes to keep ready for handlers; 0 turns the pool off", 0, 10'000},
      {"workspace.statuses",
       choice,
       "reference",
       live,
       [](Config& c) -> auto& { return c.workspace.statuses; },
       "Status codes for callers' errors on /workspace/se: always 500, as its existing clients expect (reference), or "
       "400, 404 and 409 (fitting). The bodies are the same",
       0,
       0,
       {"reference", "fitting"}},
      {"workspace.efast_url", text, "http://efast-private:9123", live,
       [](Config& c) -> auto& { return c.workspace.efast_url; }, "Default document store of download_from_efast"},
      {"workspace.efast_token", text, "", live, [](Config& c) -> auto& { return c.workspace.efast_token; },
       "Default token for workspace.efast_url; it is sent nowhere else"},
      {"workspace.efast_timeout", duration, "5m", live, [](Config& c) -> auto& { return c.workspace.efast_timeout; },
       "Default timeout for downloading one document", kSecond, kDay},
      {"workspace.efast_places", list, "", live, [](Config& c) -> auto& { return c.workspace.efast_places; },
       "Hosts with private addresses, such as objects.internal:9000, that documents of the default store may be "
       "downloaded from; its own host needs no entry"},

      {"mcp.profile",
       choice,
       "auto",
       live,
       [](Config& c) -> auto& { return c.mcp.profile; },
       "Result format of execute_code: what the client's protocol revision expects (auto), for old and new clients at "
       "once (superset), one block per line of output (streaming), one per stream with the code before it (batch), or "
       "one per stream and short (concise)",
       0,
       0,
       {"auto", "superset", "streaming", "batch", "concise"}},
      {"mcp.answer_text", size, "24K", live, [](Config& c) -> auto& { return c.mcp.answer_bytes; },
       "Output in one concise answer; of more, the beginning and the end are shown, with a link to all of it", 1U << 10,
       1U << 20},
      {"mcp.all_tools", boolean, "false", live, [](Config& c) -> auto& { return c.mcp.all_tools; },
       "List every tool; otherwise clients of 2025-03-26 and later see the ten that models need, and may call the "
       "others "
       "all the same"},
      {"mcp.server_name", text, "cove", live, [](Config& c) -> auto& { return c.mcp.server_name; },
       "Server name reported to MCP clients"},
      {"mcp.timeout", duration, "30s", live, [](Config& c) -> auto& { return c.mcp.timeout; },
       "Default timeout of execute_code; exec.max_timeout is the longest it may request", 1, 365 * kDay},
      {"mcp.sessions", count, "100", live, [](Config& c) -> auto& { return c.mcp.sessions; },
       "Sessions of one tenant; beyond it the least recently used one ends", 1, 100'000},
      {"mcp.session_idle", duration, "1h", live, [](Config& c) -> auto& { return c.mcp.session_idle; },
       "End a session that has been idle for this long", kSecond, 365 * kDay},
      {"mcp.unnamed_idle", duration, "10m", live, [](Config& c) -> auto& { return c.mcp.unnamed_idle; },
       "The same for the session of a single call that names no session", kSecond, 365 * kDay},
      {"mcp.max_body", size, "4M", live, [](Config& c) -> auto& { return c.mcp.max_body_bytes; },
       "Largest message posted to /mcp", 1024, 64 * kMiB},
      {"mcp.stateless", boolean, "false", live, [](Config& c) -> auto& { return c.mcp.stateless; },
       "Serve protocol revisions before 2026-07-28 on /mcp without sessions"},
      {"mcp.sse", boolean, "false", live, [](Config& c) -> auto& { return c.mcp.sse; },
       "Also serve /sse, for clients of revision 2024-11-05"},
      {"mcp.task_after", duration, "20s", live, [](Config& c) -> auto& { return c.mcp.task_after; },
       "Turn calls that may take longer than this into tasks, for clients that support tasks", 0, 365 * kDay},
      {"mcp.ask_before_install", boolean, "true", live, [](Config& c) -> auto& { return c.mcp.ask_before_install; },
       "Ask the user before install_packages; clients that cannot ask install without asking"},
      {"mcp.tenant_replay_size", size, "64M", live, [](Config& c) -> auto& { return c.mcp.tenant_replay_bytes; },
       "Bytes of sent events to keep for one tenant, so that clients can resume a stream; beyond it the oldest are "
       "dropped",
       kMiB, 16 * kTiB},
      {"mcp.max_replay_size", size, "256M", live, [](Config& c) -> auto& { return c.mcp.max_replay_bytes; },
       "The same for all tenants together; beyond it the largest tenant loses its oldest", kMiB, 16 * kTiB},
      {"mcp.tenant_outputs", count, "1024", live, [](Config& c) -> auto& { return c.mcp.tenant_outputs; },
       "Executions of one tenant whose output can be read again; beyond it the oldest are dropped", 1, 1'000'000},
      {"mcp.max_outputs", count, "4096", live, [](Config& c) -> auto& { return c.mcp.max_outputs; },
       "The same for all tenants together; beyond it the largest tenant loses its oldest", 1, 1'000'000},
      {"mcp.tenant_outputs_size", size, "16M", live, [](Config& c) -> auto& { return c.mcp.tenant_outputs_bytes; },
       "Bytes of such output for one tenant", 1024, 16 * kTiB},
      {"mcp.max_outputs_size", size, "64M", live, [](Config& c) -> auto& { return c.mcp.max_outputs_bytes; },
       "Bytes of such output, all tenants together", 1024, 16 * kTiB},
      {"mcp.page_size", count, "100", live, [](Config& c) -> auto& { return c.mcp.page_size; },
       "Tools, prompts or resources per page of a list", 1, 10'000},
      {"mcp.fixtures", boolean, "false", restart, [](Config& c) -> auto& { return c.mcp.fixtures; }, ""},

      {"images", map, "", live, [](Config& c) -> auto& { return c.images; },
       "Templates for the images that clients request, such as \"python:3.10\" = \"host\""},
  };
  return kKeys;
}

}  // namespace

std::string Key::env() const {
  std::string out = "COVE_";
  for (const char c : name) out.push_back(c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
  return out;
}

std::string Key::flag() const {
  std::string out = "--";
  for (const char c : name) out.push_back(c == '.' || c == '_' ? '-' : c);
  return out;
}

std::string_view Key::section() const {
  const auto dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::span<const Alias> aliases() {
  static constexpr auto kAliases = std::to_array<Alias>({
      {"MAX_EXEC_TIMEOUT_MS", "execute.max_timeout", "ms"},
      {"MAX_OUTPUT_BYTES", "execute.output_limit", ""},
      {"CPU_TIME_LIMIT_SEC", "execute.cpu_time", "s"},
      {"MEMORY_LIMIT_MB", "execute.memory", "M"},
      {"MAX_CONCURRENT_EXECUTIONS", "execute.max_concurrent", ""},
      {"EXECUTION_QUEUE_TIMEOUT_SEC", "execute.queue_timeout", "s"},
      {"EXECUTION_RETRY_AFTER_SEC", "execute.retry_after", "s"},
      {"CAPACITY_RETRY_AFTER_SEC", "execute.capacity_retry_after", "s"},
      {"BACKEND_CHECK_TIMEOUT_SEC", "execute.check_timeout", "s"},
      {"FILE_STORAGE_DIR", "files.directory", ""},
      {"MAX_FILE_SIZE_MB", "files.max_size", "M"},
      {"FILE_TTL_SEC", "files.ttl", "s"},
      {"WORKSPACE_EXPIRATION_TIME", "workspace.expiration", "s"},
      {"MEMORY_LIMIT", "workspace.memory", "M"},
      {"SANDBOX_TIMEOUT_SECONDS", "workspace.timeout", "s"},
      {"SANDBOX_ALLOW_NETWORK", "workspace.network", ""},
      {"SANDBOX_CPU_QUOTA", "workspace.handler_cpus", ""},
      {"SANDBOX_MEMORY_LIMIT", "workspace.handler_memory", "K"},
      {"SANDBOX_MAX_USER_PROGRESS", "workspace.handler_processes", ""},
      {"SANDBOX_POOL_SIZE", "workspace.handler_pool", ""},
      {"EFAST_DOWNLOADER_URL", "workspace.efast_url", ""},
      {"EFAST_TOKEN", "workspace.efast_token", ""},
      {"DOWNLOADER_TIMEOUT", "workspace.efast_timeout", "s"},
      {"EXECUTION_TIMEOUT", "mcp.timeout", "s"},
      {"log_level", "log.level", ""},
      {"LOG_LEVEL", "log.level", ""},
      {"LOG_FORMAT", "log.format", ""},
  });
  return kAliases;
}

std::span<const Key> keys() {
  return table();
}

const Key* find_key(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &Key::name);
  return found == std::end(table()) ? nullptr : &*found;
}

}  // namespace cove::config
