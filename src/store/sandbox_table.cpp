#include "store/sandbox_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns =
    "tenant, name, id, pod_name, state, created_unix_ms, ttl_ms, expires_boot_ms, boot_id, init_pid, cgroup, uid,"
    "memory_bytes, disk_bytes, inodes, pids, cpu_millis, template_name, env_json, labels_json, metadata_json,"
    "notes_json, next_process, renewal, directory";

// The fields in the order of kColumns.
auto fields(auto& r) {
  return std::tie(r.tenant, r.name, r.id, r.pod_name, r.state, r.created_unix_ms, r.ttl_ms, r.expires_boot_ms,
                  r.boot_id, r.init_pid, r.cgroup, r.uid, r.memory_bytes, r.disk_bytes, r.inodes, r.pids, r.cpu_millis,
                  r.template_name, r.env_json, r.labels_json, r.metadata_json, r.notes_json, r.next_process, r.renewal,
                  r.directory);
}

auto collect(std::vector<SandboxRow>& rows) {
  return [&rows](const Row& row) { row.read(fields(rows.emplace_back())); };
}

}  // namespace

SandboxTable::SandboxTable(Database& database)
    : database_(database),
      insert_(database, insert_into("sandboxes", kColumns)),
      update_(database, fmt::format("UPDATE sandboxes SET ({}) = ({}) WHERE id = ?", kColumns, marks(kColumns))),
      set_state_(database, "UPDATE sandboxes SET state = ?2 WHERE id = ?1"),
      set_expiry_(database, "UPDATE sandboxes SET ttl_ms = ?2, expires_boot_ms = ?3 WHERE id = ?1"),
      set_limits_(database,
                  "UPDATE sandboxes SET memory_bytes = ?2, disk_bytes = ?3, pids = ?4, cpu_millis = ?5 WHERE id = ?1"),
      dependencies_(database, "SELECT dependencies_json FROM sandboxes WHERE id = ?"),
      set_dependencies_(database, "UPDATE sandboxes SET dependencies_json = ?2 WHERE id = ?1"),
      network_(database, "SELECT network FROM sandboxes WHERE id = ?"),
      set_network_(database, "UPDATE sandboxes SET network = ?2 WHERE id = ?1"),
      supervised_(database, "SELECT supervised FROM sandboxes WHERE id = ?"),
      set_supervised_(database, "UPDATE sandboxes SET supervised = ?2 WHERE id = ?1"),
      erase_(database, "DELETE FROM sandboxes WHERE id = ?"),
      all_(database, fmt::format("SELECT {} FROM sandboxes ORDER BY tenant, name", kColumns)) {}

Result<> SandboxTable::found(Result<> done) const {
  if (done && database_.changes() == 0) return fail(Errc::not_found, "no such sandbox");
  return done;
}

Result<> SandboxTable::insert(const SandboxRow& row) {
  auto done = std::apply([&](const auto&... field) { return insert_.run(field...); }, fields(row));
  if (!done && done.error().code == Errc::exists)
    return fail(Errc::exists, fmt::format("a sandbox '{}' already exists", row.name));
  return done;
}

Result<> SandboxTable::update(const SandboxRow& row) {
  return found(std::apply([&](const auto&... field) { return update_.run(field..., row.id); }, fields(row)));
}

Result<std::string> SandboxTable::dependencies(std::string_view id) {
  std::string json;
  COVE_CHECK(dependencies_.each([&](const Row& row) { row.get(0, json); }, id));
  return json;
}

Result<> SandboxTable::set_dependencies(std::string_view id, std::string_view json) {
  return found(set_dependencies_.run(id, json));
}

Result<std::string> SandboxTable::network(std::string_view id) {
  std::string sealed;
  COVE_CHECK(network_.each([&](const Row& row) { row.get(0, sealed); }, id));
  return sealed;
}

Result<> SandboxTable::set_network(std::string_view id, std::string_view sealed) {
  return found(set_network_.run(id, sealed));
}

Result<bool> SandboxTable::supervised(std::string_view id) {
  bool supervised = false;
  COVE_CHECK(supervised_.each([&](const Row& row) { row.get(0, supervised); }, id));
  return supervised;
}

Result<> SandboxTable::set_supervised(std::string_view id, bool supervised) {
  return found(set_supervised_.run(id, supervised));
}

Result<> SandboxTable::set_state(std::string_view id, std::string_view state) {
  return found(set_state_.run(id, state));
}

Result<> SandboxTable::set_expiry(std::string_view id, std::int64_t ttl_ms, std::int64_t expires_boot_ms) {
  return found(set_expiry_.run(id, ttl_ms, expires_boot_ms));
}

Result<> SandboxTable::set_limits(const SandboxRow& row) {
  return found(set_limits_.run(row.id, row.memory_bytes, row.disk_bytes, row.pids, row.cpu_millis));
}

Result<> SandboxTable::erase(std::string_view id) {
  return erase_.run(id);
}

Result<std::vector<SandboxRow>> SandboxTable::all() {
  std::vector<SandboxRow> rows;
  COVE_CHECK(all_.each(collect(rows)));
  return rows;
}

}  // namespace cove::store
