#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// What is needed to find a sandbox again after a restart. Written before the sandbox exists.
struct SandboxRow {
  std::string tenant;
  std::string name;  // the client's id, unique within the tenant
  std::string id;    // SandboxId, unique
  std::string pod_name;
  std::string state = "creating";  // creating, running, paused, deleting
  std::int64_t created_unix_ms = 0;
  std::int64_t ttl_ms = 0;
  std::int64_t expires_boot_ms = 0;  // CLOCK_BOOTTIME, of the boot in boot_id
  std::string boot_id;
  std::int64_t init_pid = 0;
  std::string cgroup;
  std::int32_t uid = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t disk_bytes = 0;
  std::uint64_t inodes = 0;
  std::uint32_t pids = 0;
  std::uint32_t cpu_millis = 0;
  std::string template_name = "host";
  std::string env_json = "{}";
  std::string labels_json = "{}";  // of strings
  std::string metadata_json = "{}";
  std::string notes_json = "[]";
  std::uint32_t next_process = 1;
  std::string renewal = "use";           // what restarts its time to live: "use" or "none"
  std::string directory = "/workspace";  // where its commands and interpreters start

  bool operator==(const SandboxRow&) const = default;
};

class SandboxTable {
 public:
  explicit SandboxTable(Database& database);

  // Errc::exists when the tenant has a sandbox of this name.
  Result<> insert(const SandboxRow& row);
  // The rest takes an `id`: Errc::not_found when it is unknown, but erasing a missing row is not an error.
  Result<> update(const SandboxRow& row);
  Result<> set_state(std::string_view id, std::string_view state);
  Result<> set_expiry(std::string_view id, std::int64_t ttl_ms, std::int64_t expires_boot_ms);
  // Memory, disk, pids and cores of the row.
  Result<> set_limits(const SandboxRow& row);
  // The status of its installs, as JSON; empty: nothing was requested.
  Result<std::string> dependencies(std::string_view id);
  Result<> set_dependencies(std::string_view id, std::string_view json);
  // As it was set; "" when it never was.
  Result<std::string> network(std::string_view id);
  Result<> set_network(std::string_view id, std::string_view sealed);
  // Whether somebody is asked about its calls of tools.
  Result<bool> supervised(std::string_view id);
  Result<> set_supervised(std::string_view id, bool supervised);
  // Also erases its processes, executions and tool servers.
  Result<> erase(std::string_view id);
  Result<std::vector<SandboxRow>> all();

 private:
  Result<> found(Result<> done) const;
  Database& database_;
  Statement insert_, update_, set_state_, set_expiry_, set_limits_, dependencies_, set_dependencies_, network_,
      set_network_, supervised_, set_supervised_, erase_, all_;
};

}  // namespace cove::store
