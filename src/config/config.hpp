#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace cove::config {

// Where a server listens: a literal address. Port 0 takes a free one.
struct Endpoint {
  std::string host = "127.0.0.1";  // IPv6 without its brackets
  std::uint16_t port = 8000;

  // Only this machine can connect.
  [[nodiscard]] bool loopback() const;
  [[nodiscard]] std::string text() const;
  bool operator==(const Endpoint&) const = default;
};

// A listener that serves one sandbox: "127.0.0.1:8888=sandbox:demo".
struct SandboxListener {
  Endpoint endpoint;
  std::string sandbox;
};
inline constexpr std::size_t kMaxListeners = 64;  // in the configuration

enum class OnExit { destroy, keep };
enum class LogLevel { debug, info, warn, error };
enum class LogFormat { text, json };
// Who may read /metrics: whoever may use the API, or anybody on this machine without a key.
enum class MetricsAccess { key, loopback };
// What /health tells of itself: nothing but "ok", or what that version of the code interpreter told.
enum class ReportedVersion { off, v0_3_3, v0_4_4, v0_4_8 };

struct Log {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
  bool access = true;
  bool operator==(const Log&) const = default;
};

struct Http {
  std::vector<std::string> allowed_hosts;    // lower case: "box.example.org", "box.example.org:8443"
  std::vector<std::string> allowed_origins;  // lower case: "https://console.example.org"
  std::uint32_t max_connections = 0;
  std::uint32_t max_connections_per_peer = 0;  // 0: no limit of its own
  std::uint64_t max_body_bytes = 0;            // uploads have their own
  std::uint64_t memory_bytes = 0;              // of bodies and answers that wait, of all tenants
  std::uint64_t tenant_memory_bytes = 0;       // and of one
  MetricsAccess metrics = MetricsAccess::key;
  bool operator==(const Http&) const = default;
};

// What a sandbox gets when nothing is asked for, and the most that can be asked for.
struct SandboxLimits {
  std::uint64_t memory_bytes = 0, max_memory_bytes = 0;
  std::uint64_t disk_bytes = 0, max_disk_bytes = 0;
  std::uint32_t inodes = 0, max_inodes = 0;
  std::uint32_t pids = 0, max_pids = 0;
  std::uint32_t cpu_millis = 0, max_cpu_millis = 0;
  std::chrono::milliseconds ttl{}, max_ttl{};
  std::chrono::milliseconds orphan_grace{};
  bool strict_images = false;

  // Of a sandbox that asks for no disk space. Without a setting: half of its memory, which holds its files.
  [[nodiscard]] std::uint64_t disk_for(std::uint64_t memory) const {
    return disk_bytes != 0 ? disk_bytes : std::min(memory / 2, max_disk_bytes);
  }
  bool operator==(const SandboxLimits&) const = default;
};

struct ExecLimits {
  std::chrono::milliseconds timeout{}, max_timeout{};
  std::uint64_t output_limit_bytes = 0;  // kept of stdout and of stderr
  std::uint32_t max_concurrent = 0;
  std::uint32_t max_queued = 0;
  std::uint32_t history = 0;  // asynchronous executions of a sandbox that are remembered
  std::uint64_t tenant_history_bytes = 0, max_history_bytes = 0;  // of their code and results
  std::uint64_t tenant_recent_bytes = 0, max_recent_bytes = 0;    // of executions in kernels that are over
  bool operator==(const ExecLimits&) const = default;
};

// The code interpreter's door: runs of one program, and sessions.
struct ExecuteLimits {
  std::chrono::milliseconds max_timeout{};
  std::uint64_t output_limit_bytes = 0;  // of stdout and of stderr
  std::chrono::milliseconds cpu_time{};  // of one process
  std::uint64_t memory_bytes = 0;        // of one run or session
  std::uint32_t max_concurrent = 0;
  std::chrono::milliseconds queue_timeout{};
  std::chrono::milliseconds retry_after{};           // told with 429
  std::chrono::milliseconds capacity_retry_after{};  // and with 503
  std::chrono::milliseconds check_timeout{};
  ReportedVersion reported_version = ReportedVersion::off;
  bool operator==(const ExecuteLimits&) const = default;
};

// Roots that are built from packages.
struct TemplateLimits {
  std::chrono::milliseconds build_timeout{};
  std::uint64_t build_size_bytes = 0;  // on disk, while it is built
  bool operator==(const TemplateLimits&) const = default;
};

// How callers of /workspace/se are told of their mistakes: with 500 and a body, as the servers it stands in for do, or
// with the status that fits.
enum class WorkspaceStatuses { reference, fitting };

// The workspace door: sessions, and handlers that are called once.
struct Workspace {
  std::chrono::milliseconds expiration{};  // of a session, from its creation
  std::uint64_t size_bytes = 0;            // files of a session that asks for no size
  std::uint64_t memory_bytes = 0;          // for the programs of a session, besides its files
  std::chrono::milliseconds timeout{};     // wall time of a command, a script, and a handler that asks for none
  bool network = false;                    // everything public
  std::uint32_t handler_cpu_millis = 0;
  std::uint64_t handler_memory_bytes = 0;
  std::uint32_t handler_processes = 0;
  std::uint32_t handler_pool = 0;  // sandboxes for handlers that stand ready
  WorkspaceStatuses statuses = WorkspaceStatuses::reference;
  std::string efast_url;    // the document store that is asked when the caller names none
  std::string efast_token;  // sent there and nowhere else
  std::chrono::milliseconds efast_timeout{};
  std::vector<std::string> efast_places;  // host:port, besides efast_url's, that may be asked whatever their address is
  bool operator==(const Workspace&) const = default;
};

// The form of execute_code's answers. `automatic`: `superset` for clients that send no `initialize` and those of
// 2024-11-05, whose scripts read it, `concise` for all others. `streaming` and `batch` are exactly what one generation
// of servers answered; `superset` is both at once; `concise` is what a model needs.
enum class McpProfile { automatic, superset, streaming, batch, concise };

// The MCP door.
struct Jupyter {
  std::uint32_t max_kernels = 0;           // of one tenant, through this API; 0: no limit
  std::chrono::milliseconds kernel_ttl{};  // of a sandbox that was made for a kernel
  std::chrono::milliseconds cull_idle{};   // kernels that did nothing for so long are ended; 0: never
  bool cull_connected = false;             // also those with connections
  std::vector<std::string> env;            // variables that clients may set, besides KERNEL_…
  std::uint64_t tenant_replay_bytes = 0, max_replay_bytes = 0;  // of output for clients that are away
  bool operator==(const Jupyter&) const = default;
};

struct Mcp {
  McpProfile profile = McpProfile::automatic;
  std::uint64_t answer_bytes = 0;            // of output in one concise answer
  bool all_tools = false;                    // list every tool, also for clients that get the short list
  std::string server_name;                   // as clients see it
  std::chrono::milliseconds timeout{};       // of a call that asks for none
  std::uint32_t sessions = 0;                // of one tenant
  std::chrono::milliseconds session_idle{};  // a session that was not used so long ends
  std::chrono::milliseconds unnamed_idle{};  // the same, where every call has a new one
  std::uint64_t max_body_bytes = 0;          // of one posted message
  bool stateless = false;                    // serve requests of older revisions without a session
  bool sse = false;                          // HTTP with events, as before Streamable HTTP
  std::chrono::milliseconds task_after{};    // a call that may take longer becomes a task, for clients that know them
  std::uint32_t page_size = 0;               // of lists
  bool fixtures = false;                     // what the protocol's conformance suites look for
  bool ask_before_install = true;            // where the client can be asked
  bool grant_network = false;                // where it cannot
  std::uint64_t tenant_replay_bytes = 0, max_replay_bytes = 0;  // of streams that can be asked for again
  std::uint32_t tenant_outputs = 0, max_outputs = 0;            // executions whose output can be read again
  std::uint64_t tenant_outputs_bytes = 0, max_outputs_bytes = 0;
  std::uint64_t output_bytes = 0;  // of one stream of an execution that can be read again
  bool operator==(const Mcp&) const = default;
};

// Files that clients keep here for their runs.
struct FileStorage {
  std::string directory;  // empty: below state_dir
  std::uint64_t max_size_bytes = 0;
  std::uint64_t tenant_bytes = 0, max_total_bytes = 0;
  std::uint32_t tenant_count = 0, max_total_count = 0;
  std::uint32_t run_count = 0;      // kept from one run
  std::uint64_t reserve_bytes = 0;  // of the disk, for the database
  std::chrono::milliseconds ttl{};
  bool operator==(const FileStorage&) const = default;
};

struct UploadLimits {
  std::uint64_t max_body_bytes = 0;
  std::uint64_t max_unpacked_bytes = 0;
  std::uint32_t max_members = 0;
  std::uint32_t max_depth = 0;
  std::uint32_t max_ratio = 0;  // unpacked to packed
  bool operator==(const UploadLimits&) const = default;
};

// Whose sessions may be forked from one interpreter.
enum class ZygoteSharing { tenant, everyone };

struct Python {
  bool warm = true;                  // from a zygote; without, every session starts an interpreter of its own
  std::vector<std::string> preload;  // modules a zygote has loaded
  bool light = true;                 // programs that need few of them have zygotes of their own
  std::uint32_t zygote_births = 0;   // a zygote is replaced after so many
  std::chrono::milliseconds zygote_interval{};  // but not before this age
  std::chrono::milliseconds zygote_age{};       // and in any case at this one
  ZygoteSharing zygotes = ZygoteSharing::tenant;
  bool operator==(const Python&) const = default;
};

struct Pool {
  std::uint32_t size = 0;                   // sandboxes of each kind that stand ready
  std::uint32_t tenant_interpreters = 0;    // ready for tenants with keys, in all
  std::chrono::milliseconds tenant_idle{};  // a tenant that asked for nothing so long has none ready
  bool operator==(const Pool&) const = default;
};

// Requests that the server makes itself.
struct Outbound {
  std::string ca_file;                                          // empty: the system's store
  std::uint32_t tenant_lookups = 0, max_lookups = 0;            // names being looked up
  std::uint32_t tenant_lookup_queue = 0, max_lookup_queue = 0;  // waiting for that
  std::chrono::milliseconds lookup_timeout{};
  bool operator==(const Outbound&) const = default;
};

// Tokens of somebody else's authorization server, which open the server as keys do. All of it is set, or nothing.
struct OAuth {
  std::vector<std::string> authorization_servers;  // that may have issued a token
  std::string resource;                            // our address, for which it was issued
  std::vector<std::string> scopes;                 // that it must have
  std::string keys_file;                           // a JWK set: what it is signed with
  [[nodiscard]] bool configured() const { return !resource.empty(); }
  bool operator==(const OAuth&) const = default;
};

// Lifecycle events that are kept.
struct Events {
  std::uint32_t tenant_count = 0, max_count = 0;
  bool operator==(const Events&) const = default;
};

// What is kept of what was done in sandboxes.
struct Journal {
  bool enabled = true;
  std::uint32_t tenant_count = 0, max_count = 0;
  std::uint64_t tenant_bytes = 0, max_bytes = 0;
  std::uint64_t act_bytes = 0;  // of one act, for doing it again
  bool operator==(const Journal&) const = default;
};

// Answers that are kept for requests that are repeated under their Idempotency-Key.
struct Idempotency {
  std::uint32_t tenant_count = 0, max_count = 0;
  std::uint64_t tenant_bytes = 0, max_bytes = 0;
  bool operator==(const Idempotency&) const = default;
};

// Telling others that an execution has ended.
struct Callbacks {
  std::vector<std::string> allow;  // "host:port" that may be called whatever its address is
  std::uint32_t attempts = 0;
  std::chrono::milliseconds backoff{};  // after the first failure; twice as long after each further one
  std::chrono::milliseconds timeout{};
  std::uint64_t max_size_bytes = 0;
  std::uint32_t tenant_concurrent = 0, max_concurrent = 0;  // being sent at once
  std::uint32_t tenant_pending = 0, max_pending = 0;        // not delivered and not given up yet
  std::uint64_t tenant_pending_bytes = 0, max_pending_bytes = 0;
  bool operator==(const Callbacks&) const = default;
};

// Packages that are installed into a sandbox.
struct Dependencies {
  std::string index;               // of this URL, when nothing else is asked for; empty: none
  std::vector<std::string> allow;  // "host:port" of indexes that may be asked whatever their address is
  std::chrono::milliseconds timeout{}, max_timeout{};
  std::uint64_t max_download_bytes = 0;  // by one install
  std::uint32_t tenant_concurrent = 0, max_concurrent = 0;
  bool operator==(const Dependencies&) const = default;
};

// The way out of sandboxes for which nothing else was asked, and what policies may say.
enum class NetworkMode { none, allow, everything };

struct Network {
  NetworkMode mode = NetworkMode::none;
  std::vector<std::string> allow;  // of the mode allow, and private ones of the mode public
  std::vector<std::string> deny;
  std::vector<std::string> reach;  // private targets that every tenant's policy may list
  std::uint32_t log_records = 0;   // decisions that are kept of each sandbox
  bool operator==(const Network&) const = default;
};

// Tools of MCP servers that code in sandboxes may call.
struct Tools {
  bool allow_loopback = false;
  std::vector<std::string> allow;      // "host:port" of servers that may be reached whatever their address is
  std::vector<std::string> variables;  // of the server's environment, that tenants' servers may name; with '*'
  std::chrono::milliseconds approval_timeout{};
  std::uint32_t servers = 0;     // of one sandbox
  std::uint32_t concurrent = 0;  // calls of one sandbox at once
  std::uint32_t rate = 0;        // and in a second
  std::uint64_t result_bytes = 0;
  std::uint32_t log_records = 0;               // calls that are kept of each sandbox
  std::map<std::string, std::string> named{};  // [tools.NAME]: a server for every sandbox, as JSON
  bool operator==(const Tools&) const = default;
};

// The server's configuration, checked. Made by `load`; keys.hpp says what each key means and what it is by default.
struct Config {
  std::string file;  // that was read; empty when there was none
  Endpoint listen;
  std::vector<std::string> listeners;  // each a SandboxListener, as text
  std::string state_dir;
  OnExit on_exit = OnExit::destroy;
  std::chrono::milliseconds drain{};
  std::uint32_t max_sandboxes = 0;
  bool allow_degraded = false;
  Log log;
  Http http;
  SandboxLimits sandbox;
  ExecLimits exec;
  UploadLimits upload;
  Python python;
  Pool pool;
  ExecuteLimits execute;
  FileStorage files;
  TemplateLimits templates;
  Outbound outbound;
  OAuth oauth;
  Events events;
  Journal journal;
  Idempotency idempotency;
  Callbacks callbacks;
  Dependencies dependencies;
  Network network;
  Tools tools;
  std::string resolver;  // name server of egress; "": the system's
  Workspace workspace;
  Mcp mcp;
  Jupyter jupyter;
  std::map<std::string, std::string> images;  // image as clients name it, to template
  bool operator==(const Config&) const = default;
};

using Settings = std::map<std::string, std::string, std::less<>>;

struct LoadInput {
  std::string file;                                  // --config; empty: COVE_CONFIG, else `default_file` if it exists
  std::optional<std::string> content = {};           // of that file, when somebody else has read it
  std::string default_file = "/etc/cove/cove.toml";  //
  std::string default_state_dir;                     // host::default_state_dir()
  Settings environment;                              // NAME to value; `cove_environment()` in the real program
  Settings flags;                                    // key name ("sandbox.memory") to text
};

// The part of our environment that is for us: COVE_*, HOST and PORT, and the names of keys.hpp's aliases().
Settings cove_environment();

// Defaults, the file, the environment, the flags: the later wins. Errc::invalid with every key that is wrong, one a
// line: the key, where the value came from and why it cannot be; Errc::not_found and others for the file itself.
Result<Config> load(const LoadInput& input);

// What a running server does with a configuration that was loaded again.
struct ReloadPlan {
  Config config;                          // the running one with what can change while it runs
  std::vector<std::string> applied;       // keys that changed
  std::vector<std::string> need_restart;  // keys that differ and were left as they are
};
ReloadPlan plan_reload(const Config& running, const Config& loaded);

}  // namespace cove::config
