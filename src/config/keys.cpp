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
  static const auto kKeys = std::to_array<Key>({
      {"listen", address, "127.0.0.1:8000", restart, [](Config& c) -> auto& { return c.listen; },
       "Address and port to listen on; any but a loopback address needs keys (cove key create); port 0 takes a free "
       "one"},
      {"state_dir", text, "", restart, [](Config& c) -> auto& { return c.state_dir; },
       "Where everything that outlives the server is kept (default /var/lib/cove, without root ~/.local/state/cove)"},
      {"on_exit",
       choice,
       "destroy",
       live,
       [](Config& c) -> auto& { return c.on_exit; },
       "What a clean stop does with the sandboxes: destroy them, or keep them for the next start",
       0,
       0,
       {"destroy", "keep"}},
      {"drain", duration, "30s", live, [](Config& c) -> auto& { return c.drain; },
       "How long a stop waits for work that is running", 0, kDay},
      {"max_sandboxes", count, "1000", live, [](Config& c) -> auto& { return c.max_sandboxes; },
       "Sandboxes that may live at once, of all tenants together", 1, 1'000'000},
      {"allow_degraded", boolean, "false", restart, [](Config& c) -> auto& { return c.allow_degraded; },
       "Serve although this host cannot enforce every limit (cove doctor shows which); results then say so"},

      {"log.level",
       choice,
       "info",
       live,
       [](Config& c) -> auto& { return c.log.level; },
       "The least that is logged: debug, info, warn or error",
       0,
       0,
       {"debug", "info", "warn", "error"}},
      {"log.format",
       choice,
       "text",
       live,
       [](Config& c) -> auto& { return c.log.format; },
       "Lines of key=value (text), or one JSON object a line (json)",
       0,
       0,
       {"text", "json"}},
      {"log.access", boolean, "true", live, [](Config& c) -> auto& { return c.log.access; },
       "Log a line for every request"},

      {"http.allowed_hosts", list, "", live, [](Config& c) -> auto& { return c.http.allowed_hosts; },
       "Names in a Host header that are ours, besides the address we listen on and localhost: name or name:port"},
      {"http.allowed_origins", list, "", live, [](Config& c) -> auto& { return c.http.allowed_origins; },
       "Web pages that may call us, as https://console.example.org; pages of our own always may"},
      {"http.max_connections", count, "10000", live, [](Config& c) -> auto& { return c.http.max_connections; },
       "Connections that may be open at once", 1, 1'000'000},
      {"http.max_body", size, "16M", live, [](Config& c) -> auto& { return c.http.max_body_bytes; },
       "The largest request body, uploads aside", 1024, kTiB},
      {"http.metrics",
       choice,
       "key",
       live,
       [](Config& c) -> auto& { return c.http.metrics; },
       "Who may read /metrics: whoever may use the API (key), or anybody on this machine (loopback)",
       0,
       0,
       {"key", "loopback"}},

      {"sandbox.memory", size, "512M", live, [](Config& c) -> auto& { return c.sandbox.memory_bytes; },
       "Memory of a sandbox that asks for none", 8 * kMiB, 16 * kTiB},
      {"sandbox.max_memory", size, "8G", live, [](Config& c) -> auto& { return c.sandbox.max_memory_bytes; },
       "The most memory a sandbox may ask for", 8 * kMiB, 16 * kTiB},
      {"sandbox.disk", size, "256M", live, [](Config& c) -> auto& { return c.sandbox.disk_bytes; },
       "Files a sandbox may write when it asks for nothing; they live in its memory, so less than sandbox.memory",
       kMiB / 4, 16 * kTiB},
      {"sandbox.max_disk", size, "4G", live, [](Config& c) -> auto& { return c.sandbox.max_disk_bytes; },
       "The most disk a sandbox may ask for", kMiB / 4, 16 * kTiB},
      {"sandbox.inodes", count, "65536", live, [](Config& c) -> auto& { return c.sandbox.inodes; },
       "Files and directories a sandbox may make", 1024, 1'000'000'000},
      {"sandbox.max_inodes", count, "1000000", live, [](Config& c) -> auto& { return c.sandbox.max_inodes; },
       "The most files and directories a sandbox may ask for", 1024, 1'000'000'000},
      {"sandbox.pids", count, "64", live, [](Config& c) -> auto& { return c.sandbox.pids; },
       "Processes and threads of a sandbox that asks for none", 2, 1'000'000},
      {"sandbox.max_pids", count, "4096", live, [](Config& c) -> auto& { return c.sandbox.max_pids; },
       "The most processes and threads a sandbox may ask for", 2, 1'000'000},
      {"sandbox.cpus", cores, "1", live, [](Config& c) -> auto& { return c.sandbox.cpu_millis; },
       "Cores of a sandbox that asks for none, as 0.5 or 2", 10, 1'024'000},
      {"sandbox.max_cpus", cores, "0", live, [](Config& c) -> auto& { return c.sandbox.max_cpu_millis; },
       "The most cores a sandbox may ask for; 0 for as many as this machine has", 0, 1'024'000},
      {"sandbox.ttl", duration, "15m", live, [](Config& c) -> auto& { return c.sandbox.ttl; },
       "How long an unused sandbox lives when it asks for nothing", kSecond, 365 * kDay},
      {"sandbox.max_ttl", duration, "7d", live, [](Config& c) -> auto& { return c.sandbox.max_ttl; },
       "The longest life a sandbox may ask for", kSecond, 365 * kDay},
      {"sandbox.strict_images", boolean, "false", live, [](Config& c) -> auto& { return c.sandbox.strict_images; },
       "Refuse an image that [images] does not name, instead of using the host template and saying so"},

      {"exec.timeout", duration, "30s", live, [](Config& c) -> auto& { return c.exec.timeout; },
       "Wall time of an execution that asks for none", 1, 365 * kDay},
      {"exec.max_timeout", duration, "1h", live, [](Config& c) -> auto& { return c.exec.max_timeout; },
       "The longest wall time an execution gets, whatever it asks for", 1, 365 * kDay},
      {"exec.output_limit", size, "1M", live, [](Config& c) -> auto& { return c.exec.output_limit_bytes; },
       "Bytes kept of stdout and of stderr; more is dropped and counted", 0, 1ULL << 30},
      {"exec.max_concurrent", count, "256", live, [](Config& c) -> auto& { return c.exec.max_concurrent; },
       "Executions that may run at once, of all tenants together", 1, 1'000'000},
      {"exec.max_queued", count, "1024", live, [](Config& c) -> auto& { return c.exec.max_queued; },
       "Executions that may wait for their turn; more are refused with 429", 0, 1'000'000},
      {"exec.history", count, "100", live, [](Config& c) -> auto& { return c.exec.history; },
       "Asynchronous executions of a sandbox that are remembered with their results, 16 MiB of them at most", 1,
       10'000},

      {"upload.max_body", size, "256M", live, [](Config& c) -> auto& { return c.upload.max_body_bytes; },
       "The largest archive, or single file, that may be sent", 1024, 16 * kTiB},
      {"upload.max_unpacked", size, "1G", live, [](Config& c) -> auto& { return c.upload.max_unpacked_bytes; },
       "The most an archive may unpack to", 1024, 16 * kTiB},
      {"upload.max_members", count, "100000", live, [](Config& c) -> auto& { return c.upload.max_members; },
       "The most files and directories an archive may hold", 1, 100'000'000},
      {"upload.max_depth", count, "64", live, [](Config& c) -> auto& { return c.upload.max_depth; },
       "The most directories above a file in an archive", 1, 2048},
      {"upload.max_ratio", count, "1000", live, [](Config& c) -> auto& { return c.upload.max_ratio; },
       "How many times its own size an archive may unpack to", 1, 1'000'000},

      {"python.warm", boolean, "true", restart, [](Config& c) -> auto& { return c.python.warm; },
       "Start Python sessions as forks of an interpreter that has its modules loaded; false: each is an exec of its "
       "own, "
       "slower, and shares no memory layout with another"},
      {"python.preload", list, "IPython,numpy,pandas,matplotlib.pyplot,openpyxl,PIL.Image", restart,
       [](Config& c) -> auto& { return c.python.preload; },
       "Modules that warm interpreters have loaded, where they are installed"},
      {"python.zygote_births", count, "200", restart, [](Config& c) -> auto& { return c.python.zygote_births; },
       "A warm interpreter is replaced after so many sessions were forked from it", 1, 1'000'000},
      {"python.zygote_age", duration, "10m", restart, [](Config& c) -> auto& { return c.python.zygote_age; },
       "A warm interpreter is replaced when it is so old", kSecond, kDay},

      {"python.zygotes",
       choice,
       "tenant",
       restart,
       [](Config& c) -> auto& { return c.python.zygotes; },
       "Whose sessions are forked from one warm interpreter, and so share its hash seed and memory layout: one "
       "tenant's, "
       "or everyone's, which costs less memory",
       0,
       0,
       {"tenant", "everyone"}},

      {"pool.size", count, "4", live, [](Config& c) -> auto& { return c.pool.size; },
       "Sandboxes of each kind that are made ready before they are asked for; 0: none", 0, 10'000},
      {"execute.max_timeout", duration, "60s", live, [](Config& c) -> auto& { return c.execute.max_timeout; },
       "The longest time that /v1/execute and a session's command may ask for", 1, 365 * kDay},
      {"execute.output_limit", size, "1000000", live, [](Config& c) -> auto& { return c.execute.output_limit_bytes; },
       "Bytes that /v1/execute keeps of stdout and of stderr", 0, 64 * kMiB},
      {"execute.cpu_time", duration, "5s", live, [](Config& c) -> auto& { return c.execute.cpu_time; },
       "Processor time of one process of a run; then it is killed", kSecond, 365 * kDay},
      {"execute.memory", size, "256M", live, [](Config& c) -> auto& { return c.execute.memory_bytes; },
       "Memory of a run or a session, with all the files it writes", 16 * kMiB, 16 * kTiB},
      {"execute.max_concurrent", count, "16", live, [](Config& c) -> auto& { return c.execute.max_concurrent; },
       "Runs and commands of sessions at once, of all tenants together", 1, 1'000'000},
      {"execute.queue_timeout", duration, "5s", live, [](Config& c) -> auto& { return c.execute.queue_timeout; },
       "How long one waits for its turn before it is refused with 429; 0 refuses at once", 0, kDay},
      {"execute.retry_after", duration, "2s", live, [](Config& c) -> auto& { return c.execute.retry_after; },
       "When a client that got 429 is told to come back", 0, kDay},
      {"execute.capacity_retry_after", duration, "10s", live,
       [](Config& c) -> auto& { return c.execute.capacity_retry_after; },
       "When a client is told to come back for which no sandbox could be made", 0, kDay},
      {"execute.check_timeout", duration, "2.5s", live, [](Config& c) -> auto& { return c.execute.check_timeout; },
       "How long /ready waits for an answer from behind", 1, kDay},
      {"execute.reported_version",
       choice,
       "off",
       live,
       [](Config& c) -> auto& { return c.execute.reported_version; },
       "What /health says: \"ok\" alone (off), or as a code interpreter of that version does; Onyx uses sessions from "
       "0.4.0 on",
       0,
       0,
       {"off", "0.3.3", "0.4.4", "0.4.8"}},

      {"files.directory", text, "", restart, [](Config& c) -> auto& { return c.files.directory; },
       "Where the files of /v1/files are kept (default below state_dir); empty, or Cove's from before"},
      {"files.max_size", size, "100M", live, [](Config& c) -> auto& { return c.files.max_size_bytes; },
       "The largest file that /v1/files takes", kMiB, 16 * kTiB},
      {"files.ttl", duration, "1h", live, [](Config& c) -> auto& { return c.files.ttl; }, "How long a file is kept",
       kSecond, 3650 * kDay},

      {"templates.build_timeout", duration, "15m", live, [](Config& c) -> auto& { return c.templates.build_timeout; },
       "How long the build of a template may take", kSecond, kDay},

      {"outbound.ca_file", text, "", restart, [](Config& c) -> auto& { return c.outbound.ca_file; },
       "Certificates (PEM) that the server trusts when it asks others by https, instead of this machine's store"},

      {"oauth.authorization_servers", list, "", restart,
       [](Config& c) -> auto& { return c.oauth.authorization_servers; },
       "Authorization servers whose tokens open this server beside its keys, as https://auth.example.org"},
      {"oauth.resource", text, "", restart, [](Config& c) -> auto& { return c.oauth.resource; },
       "Our address as such tokens name it (their audience), as https://cove.example.org/mcp"},
      {"oauth.scopes", list, "", restart, [](Config& c) -> auto& { return c.oauth.scopes; },
       "Scopes that such a token must have"},
      {"oauth.keys_file", text, "", restart, [](Config& c) -> auto& { return c.oauth.keys_file; },
       "File with the keys that such tokens are signed with: a JWK set of RSA, P-256 or Ed25519 keys"},

      {"callbacks.allow", list, "", live, [](Config& c) -> auto& { return c.callbacks.allow; },
       "Places that may be told of an execution's end although their address is private, as hooks.internal:8080"},
      {"callbacks.attempts", count, "6", live, [](Config& c) -> auto& { return c.callbacks.attempts; },
       "How often a callback is tried", 1, 100},
      {"callbacks.backoff", duration, "2s", live, [](Config& c) -> auto& { return c.callbacks.backoff; },
       "How long after a failure a callback is tried again; twice as long after each further one", 1, kDay},
      {"callbacks.timeout", duration, "10s", live, [](Config& c) -> auto& { return c.callbacks.timeout; },
       "How long one try may take", 1, 600 * kSecond},
      {"callbacks.max_size", size, "1M", live, [](Config& c) -> auto& { return c.callbacks.max_size_bytes; },
       "The largest body that is sent; of a larger result the output is left out", 1024, 64 * kMiB},

      {"dependencies.index", text, "", live, [](Config& c) -> auto& { return c.dependencies.index; },
       "The package index (PEP 503) that packages are installed from, as https://index.example.org/simple; empty: "
       "none"},
      {"dependencies.allow", list, "", live, [](Config& c) -> auto& { return c.dependencies.allow; },
       "Indexes that callers may name, and hosts that index pages may name, although their address is private, as "
       "index.internal:8080"},
      {"dependencies.timeout", duration, "5m", live, [](Config& c) -> auto& { return c.dependencies.timeout; },
       "How long an install may take that asks for nothing", kSecond, kDay},
      {"dependencies.max_timeout", duration, "30m", live, [](Config& c) -> auto& { return c.dependencies.max_timeout; },
       "The longest time that may be asked for", kSecond, kDay},
      {"dependencies.max_download", size, "512M", live,
       [](Config& c) -> auto& { return c.dependencies.max_download_bytes; }, "Bytes that one install may fetch", 1024,
       16 * kTiB},

      {"workspace.expiration", duration, "24h", live, [](Config& c) -> auto& { return c.workspace.expiration; },
       "How long a session of /workspace/se lives, from its creation, whatever is done in it", kSecond, 365 * kDay},
      {"workspace.size", size, "100M", live, [](Config& c) -> auto& { return c.workspace.size_bytes; },
       "Files a session may hold when it is made without a size", kMiB / 4, 16 * kTiB},
      {"workspace.memory", size, "512M", live, [](Config& c) -> auto& { return c.workspace.memory_bytes; },
       "Memory for the programs of a session, besides its files", 16 * kMiB, 16 * kTiB},
      {"workspace.timeout", duration, "5m", live, [](Config& c) -> auto& { return c.workspace.timeout; },
       "Wall time of a command or a script in a session, and of a handler that asks for none", kSecond, kDay},
      {"workspace.network", boolean, "false", live, [](Config& c) -> auto& { return c.workspace.network; },
       "Whether sessions and handlers should have a network; there is none to give, and the log says so"},
      {"workspace.handler_cpus", cores, "2", live, [](Config& c) -> auto& { return c.workspace.handler_cpu_millis; },
       "Cores of a handler", 10, 1'024'000},
      {"workspace.handler_memory", size, "128M", live,
       [](Config& c) -> auto& { return c.workspace.handler_memory_bytes; },
       "Memory of a handler, with all the files it writes", 16 * kMiB, 16 * kTiB},
      {"workspace.handler_processes", count, "10", live,
       [](Config& c) -> auto& { return c.workspace.handler_processes; }, "Processes and threads of a handler", 2,
       1'000'000},
      {"workspace.handler_pool", count, "2", live, [](Config& c) -> auto& { return c.workspace.handler_pool; },
       "Sandboxes for handlers that are made ready before they are asked for; 0: none", 0, 10'000},
      {"workspace.statuses",
       choice,
       "reference",
       live,
       [](Config& c) -> auto& { return c.workspace.statuses; },
       "How mistakes of a caller of /workspace/se are answered: always 500, as clients of such servers know it "
       "(reference), or with 400, 404, 409 (fitting); the bodies are the same",
       0,
       0,
       {"reference", "fitting"}},
      {"workspace.efast_url", text, "http://efast-private:9123", live,
       [](Config& c) -> auto& { return c.workspace.efast_url; },
       "The document store that download_from_efast asks when the caller names none"},
      {"workspace.efast_token", text, "", live, [](Config& c) -> auto& { return c.workspace.efast_token; },
       "The token for it when the caller gives none; it is sent nowhere else"},
      {"workspace.efast_timeout", duration, "5m", live, [](Config& c) -> auto& { return c.workspace.efast_timeout; },
       "How long one document may take when the caller does not say", kSecond, kDay},
      {"workspace.efast_places", list, "", live, [](Config& c) -> auto& { return c.workspace.efast_places; },
       "Hosts, as objects.internal:9000, that may be asked for documents although their addresses are not public; that "
       "of "
       "workspace.efast_url always may"},

      {"mcp.profile",
       choice,
       "superset",
       live,
       [](Config& c) -> auto& { return c.mcp.profile; },
       "How execute_code answers: for clients of both generations (superset), a block for every line of output "
       "(streaming), or one for each stream (batch)",
       0,
       0,
       {"superset", "streaming", "batch"}},
      {"mcp.server_name", text, "cove", live, [](Config& c) -> auto& { return c.mcp.server_name; },
       "The name that MCP clients are told"},
      {"mcp.timeout", duration, "30s", live, [](Config& c) -> auto& { return c.mcp.timeout; },
       "Wall time of an execute_code that asks for none; exec.max_timeout is the longest it may ask for", 1,
       365 * kDay},
      {"mcp.sessions", count, "100", live, [](Config& c) -> auto& { return c.mcp.sessions; },
       "Sessions of one tenant; the one that was not used for longest makes way for another", 1, 100'000},
      {"mcp.session_idle", duration, "1h", live, [](Config& c) -> auto& { return c.mcp.session_idle; },
       "A session that was not used for so long ends", kSecond, 365 * kDay},
      {"mcp.unnamed_idle", duration, "10m", live, [](Config& c) -> auto& { return c.mcp.unnamed_idle; },
       "The same for the session of a call that stands alone and names none", kSecond, 365 * kDay},
      {"mcp.max_body", size, "4M", live, [](Config& c) -> auto& { return c.mcp.max_body_bytes; },
       "The largest message that may be posted to /mcp", 1024, 64 * kMiB},
      {"mcp.stateless", boolean, "false", live, [](Config& c) -> auto& { return c.mcp.stateless; },
       "Serve requests of revisions before 2026-07-28 on /mcp without a session"},
      {"mcp.sse", boolean, "false", live, [](Config& c) -> auto& { return c.mcp.sse; },
       "Serve /sse as well, for clients of revision 2024-11-05"},
      {"mcp.task_after", duration, "20s", live, [](Config& c) -> auto& { return c.mcp.task_after; },
       "A call that may take longer becomes a task, for clients that know what that is", 0, 365 * kDay},
      {"mcp.ask_before_install", boolean, "true", live, [](Config& c) -> auto& { return c.mcp.ask_before_install; },
       "Ask before install_packages, where the client can be asked; where it cannot, packages are installed"},
      {"mcp.page_size", count, "100", live, [](Config& c) -> auto& { return c.mcp.page_size; },
       "Tools, prompts, resources in one page of a list", 1, 10'000},
      {"mcp.fixtures", boolean, "false", restart, [](Config& c) -> auto& { return c.mcp.fixtures; }, ""},

      {"images", map, "", live, [](Config& c) -> auto& { return c.images; },
       "Which template an image that clients ask for stands for, as \"python:3.10\" = \"host\""},
  });
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
  return found == table().end() ? nullptr : &*found;
}

}  // namespace cove::config
