#include "store/schema.hpp"

#include <array>

namespace cove::store {
namespace {

// Step N takes a database from user_version N to N + 1. Steps are added, never changed: somebody's database was made
// with them.
constexpr auto kSteps = std::to_array<const char*>({
    R"(
CREATE TABLE sandboxes (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  pod_name TEXT NOT NULL,
  state TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  ttl_ms INTEGER NOT NULL,
  expires_boot_ms INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  init_pid INTEGER NOT NULL,
  cgroup TEXT NOT NULL,
  uid INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  disk_bytes INTEGER NOT NULL,
  inodes INTEGER NOT NULL,
  pids INTEGER NOT NULL,
  cpu_millis INTEGER NOT NULL,
  template_name TEXT NOT NULL,
  env_json TEXT NOT NULL,
  labels_json TEXT NOT NULL,
  metadata_json TEXT NOT NULL,
  notes_json TEXT NOT NULL,
  next_process INTEGER NOT NULL,
  UNIQUE (tenant, name)
);
CREATE TABLE processes (
  sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE ON UPDATE CASCADE,
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  command_json TEXT NOT NULL,
  terminal INTEGER NOT NULL,
  input_open INTEGER NOT NULL,
  started_unix_ms INTEGER NOT NULL,
  deadline_boot_ms INTEGER NOT NULL,
  ended_unix_ms INTEGER,
  reason TEXT,
  exit_code INTEGER,
  signal INTEGER,
  duration_ms INTEGER,
  cpu_ms INTEGER,
  stdout_bytes INTEGER,
  stderr_bytes INTEGER,
  last_seq INTEGER,
  PRIMARY KEY (sandbox, number)
) WITHOUT ROWID;
CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at_unix_ms INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  type TEXT NOT NULL,
  sandbox TEXT NOT NULL,
  pod_name TEXT NOT NULL,
  data_json TEXT NOT NULL
);
CREATE INDEX events_of_tenant ON events (tenant, seq);
CREATE TABLE idempotency (
  tenant TEXT NOT NULL,
  key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  status INTEGER NOT NULL,
  body TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_by_age ON idempotency (created_unix_ms);
CREATE TABLE keys (
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  prefix TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  revoked_unix_ms INTEGER,
  max_sandboxes INTEGER NOT NULL,
  max_memory_bytes INTEGER NOT NULL,
  executions_per_minute INTEGER NOT NULL,
  concurrent_executions INTEGER NOT NULL,
  note TEXT NOT NULL
);
)",
    R"(
CREATE TABLE files (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  name TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  uploaded_unix_ms INTEGER NOT NULL,
  sha256 TEXT NOT NULL
);
CREATE INDEX files_of_tenant ON files (tenant, seq);
CREATE INDEX files_by_age ON files (uploaded_unix_ms);
ALTER TABLE sandboxes ADD COLUMN renewal TEXT NOT NULL DEFAULT 'use';
)",
    R"(
CREATE TABLE executions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE ON UPDATE CASCADE,
  sandbox_name TEXT NOT NULL,
  tenant TEXT NOT NULL,
  status TEXT NOT NULL,
  language TEXT NOT NULL,
  kernel TEXT NOT NULL,
  code TEXT NOT NULL,
  request_json TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  deadline_boot_ms INTEGER NOT NULL,
  callback_url TEXT NOT NULL,
  callback_secret TEXT NOT NULL,
  started_unix_ms INTEGER,
  ended_unix_ms INTEGER,
  result_json TEXT
);
CREATE INDEX executions_of_sandbox ON executions (sandbox, seq);
CREATE INDEX executions_by_status ON executions (status);
CREATE TABLE callbacks (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  url TEXT NOT NULL,
  secret TEXT NOT NULL,
  body TEXT NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  next_unix_ms INTEGER NOT NULL,
  last_status INTEGER NOT NULL,
  last_error TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX callbacks_by_time ON callbacks (state, next_unix_ms);
ALTER TABLE sandboxes ADD COLUMN dependencies_json TEXT NOT NULL DEFAULT '';
CREATE TABLE templates (
  name TEXT PRIMARY KEY,
  number INTEGER NOT NULL UNIQUE,
  status TEXT NOT NULL,
  reason TEXT NOT NULL,
  created_unix_ms INTEGER NOT NULL,
  built_unix_ms INTEGER,
  base TEXT NOT NULL,
  packages_json TEXT NOT NULL,
  preload_json TEXT NOT NULL,
  memory_bytes INTEGER NOT NULL,
  disk_bytes INTEGER NOT NULL,
  pids INTEGER NOT NULL,
  cpu_millis INTEGER NOT NULL,
  timeout_ms INTEGER NOT NULL,
  env_json TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  languages_json TEXT NOT NULL,
  kernels INTEGER NOT NULL,
  installed_json TEXT NOT NULL,
  log TEXT NOT NULL
);
ALTER TABLE keys ADD COLUMN operates INTEGER NOT NULL DEFAULT 0;
)",
    // Bodies apart, so that whoever looks for what is due, or notes a failure, neither reads nor writes them.
    R"(
CREATE TABLE callback_bodies (
  id TEXT PRIMARY KEY REFERENCES callbacks (id) ON DELETE CASCADE,
  body TEXT NOT NULL
);
INSERT INTO callback_bodies SELECT id, body FROM callbacks WHERE state = 'pending';
ALTER TABLE callbacks ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE callbacks SET size_bytes = length(CAST(body AS BLOB)) WHERE state = 'pending';
ALTER TABLE callbacks DROP COLUMN body;
)",
    // Answers are counted by what they take, and the oldest of a tenant are found at once.
    R"(
ALTER TABLE idempotency ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE idempotency SET size_bytes = length(CAST(key AS BLOB)) + length(request_hash) + length(CAST(body AS BLOB));
CREATE INDEX idempotency_of_tenant ON idempotency (tenant, created_unix_ms, size_bytes);
)",
    // Which numbers are missing is told for each tenant. Before, events of all were forgotten together: the tenant "".
    R"(
CREATE TABLE event_gaps (
  tenant TEXT PRIMARY KEY,
  lost_seq INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO event_gaps SELECT '', first - 1 FROM (SELECT min(seq) AS first FROM events) WHERE first > 1;
)",
    // What ended executions take is known without reading them; 0 for those that have not ended.
    R"(
ALTER TABLE executions ADD COLUMN size_bytes INTEGER NOT NULL DEFAULT 0;
UPDATE executions SET size_bytes = length(CAST(code AS BLOB)) + length(CAST(result_json AS BLOB))
  WHERE result_json IS NOT NULL;
CREATE INDEX executions_ended ON executions (sandbox, seq, size_bytes) WHERE size_bytes > 0;
CREATE INDEX executions_ended_of_tenant ON executions (tenant, seq) WHERE size_bytes > 0;
)",
    // What a process belongs to has columns of its own. Before, it was read from the words of the command: a kernel's
    // last word was its id, and only that of a warm one had two; an execution's command was its id.
    R"(
ALTER TABLE processes ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE processes ADD COLUMN language TEXT NOT NULL DEFAULT '';
ALTER TABLE processes ADD COLUMN birth TEXT NOT NULL DEFAULT 'cold';
UPDATE processes SET language = 'python', owner = 'p' || number WHERE kind = 'kernel';
UPDATE processes SET
  owner = CASE WHEN json_array_length(command_json) > 1 THEN json_extract(command_json, '$[#-1]') ELSE owner END,
  language = CASE WHEN json_extract(command_json, '$[0]') LIKE '%node' THEN 'javascript' ELSE 'python' END,
  birth = CASE WHEN json_array_length(command_json) = 2 THEN 'warm' ELSE 'cold' END
  WHERE kind = 'kernel' AND CASE WHEN json_valid(command_json) THEN json_array_length(command_json) ELSE 0 END > 0;
UPDATE processes SET owner = json_extract(command_json, '$[0]')
  WHERE kind = 'execution' AND CASE WHEN json_valid(command_json) THEN json_array_length(command_json) ELSE 0 END > 0;
)",
    // A kernel that is restarted by a later server has the environment it was created with.
    R"(
ALTER TABLE processes ADD COLUMN variables_json TEXT NOT NULL DEFAULT '[]';
)",
    // Jupyter's sessions.
    R"(
CREATE TABLE notebooks (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  path TEXT NOT NULL,
  name TEXT NOT NULL,
  type TEXT NOT NULL,
  kernel TEXT NOT NULL
);
)",
    // Where the commands and interpreters of a sandbox start.
    R"(
ALTER TABLE sandboxes ADD COLUMN directory TEXT NOT NULL DEFAULT '/workspace';
)",
    // The policy of its network, sealed: it may hold secrets.
    R"(
ALTER TABLE sandboxes ADD COLUMN network TEXT NOT NULL DEFAULT '';
)",
    // The journal: what was done in sandboxes, by whom, and how it ended. Outlives the sandboxes.
    R"(
CREATE TABLE activity (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at_unix_ms INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  sandbox TEXT NOT NULL,
  sandbox_name TEXT NOT NULL,
  door TEXT NOT NULL,
  client TEXT NOT NULL,
  key_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  summary TEXT NOT NULL,
  reference TEXT NOT NULL,
  detail_json TEXT NOT NULL,
  duration_ms INTEGER,
  outcome TEXT NOT NULL,
  good INTEGER NOT NULL,
  result_json TEXT NOT NULL,
  repeat TEXT NOT NULL,
  size_bytes INTEGER NOT NULL
);
CREATE INDEX activity_of_tenant ON activity (tenant, seq);
CREATE INDEX activity_of_sandbox ON activity (sandbox, seq);
CREATE INDEX activity_of_name ON activity (tenant, sandbox_name, seq);
CREATE INDEX activity_unfinished ON activity (seq) WHERE duration_ms IS NULL;
CREATE TABLE activity_gaps (
  tenant TEXT PRIMARY KEY,
  lost_seq INTEGER NOT NULL
) WITHOUT ROWID;
)",
    // Tool servers of sandboxes, sealed, and whether somebody is to be asked about their calls.
    R"(
CREATE TABLE tool_servers (
  sandbox TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE ON UPDATE CASCADE,
  name TEXT NOT NULL,
  sealed TEXT NOT NULL,
  PRIMARY KEY (sandbox, name)
) WITHOUT ROWID;
ALTER TABLE sandboxes ADD COLUMN supervised INTEGER NOT NULL DEFAULT 0;
)",
});

Result<> take(Database& database, std::size_t step) {
  COVE_CHECK(database.run(kSteps.at(step)));
  return database.run(fmt::format("PRAGMA user_version = {}", step + 1).c_str());
}

}  // namespace

Result<> migrate(Database& database) {
  return migrate_to(database, static_cast<std::int64_t>(kSteps.size()));
}

Result<> migrate_to(Database& database, std::int64_t newest) {
  // Read within the transaction: of two that start at once, the second finds the first one's work done.
  COVE_TRY(auto version, database.number("PRAGMA user_version"));
  while (version < newest) {
    COVE_CHECK(database.run("BEGIN IMMEDIATE"));
    auto now = database.number("PRAGMA user_version");
    Result<> done;
    if (!now)
      done = tl::unexpected<Error>(now.error());
    else if (*now < newest)
      done = take(database, static_cast<std::size_t>(*now));
    if (done) done = database.run("COMMIT");
    if (!done) {
      [[maybe_unused]] const auto undone = database.run("ROLLBACK");
      return done;
    }
    version = *now < newest ? *now + 1 : *now;
  }
  if (version > newest)
    return fail(Errc::unsupported, fmt::format("database: made by a newer Cove (schema {}, this one knows up to {}); "
                                               "upgrade this one, or give another --state-dir",
                                               version, newest));
  return {};
}

}  // namespace cove::store
