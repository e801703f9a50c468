#include "store/template_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns =
    "name, number, status, reason, created_unix_ms, built_unix_ms, base, packages_json, preload_json, memory_bytes,"
    "disk_bytes, pids, cpu_millis, timeout_ms, env_json, size_bytes, languages_json, kernels, installed_json, log";

auto fields(auto& r) {
  return std::tie(r.name, r.number, r.status, r.reason, r.created_unix_ms, r.built_unix_ms, r.base, r.packages_json,
                  r.preload_json, r.defaults.memory_bytes, r.defaults.disk_bytes, r.defaults.pids,
                  r.defaults.cpu_millis, r.defaults.timeout_ms, r.defaults.env_json, r.size_bytes, r.languages_json,
                  r.kernels, r.installed_json, r.log);
}

}  // namespace

TemplateTable::TemplateTable(Database& database)
    : put_(database, fmt::format("INSERT OR REPLACE INTO templates ({}) VALUES ({})", kColumns, marks(kColumns))),
      erase_(database, "DELETE FROM templates WHERE name = ?"),
      all_(database, fmt::format("SELECT {} FROM templates ORDER BY name", kColumns)) {}

Result<> TemplateTable::put(const TemplateRow& row) {
  return std::apply([&](const auto&... field) { return put_.run(field...); }, fields(row));
}

Result<> TemplateTable::erase(std::string_view name) {
  return erase_.run(name);
}

Result<std::vector<TemplateRow>> TemplateTable::all() {
  std::vector<TemplateRow> rows;
  COVE_CHECK(all_.each([&](const Row& row) { row.read(fields(rows.emplace_back())); }));
  return rows;
}

}  // namespace cove::store
