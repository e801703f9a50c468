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
});

Result<> take(Database& database, std::size_t step) {
  COVE_CHECK(database.run(kSteps.at(step)));
  return database.run(fmt::format("PRAGMA user_version = {}", step + 1).c_str());
}

}  // namespace

Result<> migrate(Database& database) {
  // Read within the transaction: of two that start at once, the second finds the first one's work done.
  COVE_TRY(auto version, database.number("PRAGMA user_version"));
  const auto newest = static_cast<std::int64_t>(kSteps.size());
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
