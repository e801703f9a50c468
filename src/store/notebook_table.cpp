#include "store/notebook_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns = "id, tenant, path, name, type, kernel";

auto fields(auto& r) {
  return std::tie(r.id, r.tenant, r.path, r.name, r.type, r.kernel);
}

}  // namespace

NotebookTable::NotebookTable(Database& database)
    : put_(database, fmt::format("INSERT OR REPLACE INTO notebooks ({}) VALUES ({})", kColumns, marks(kColumns))),
      remove_(database, "DELETE FROM notebooks WHERE id = ?"),
      all_(database, fmt::format("SELECT {} FROM notebooks ORDER BY rowid", kColumns)) {}

Result<> NotebookTable::put(const NotebookRow& row) {
  return std::apply([&](const auto&... field) { return put_.run(field...); }, fields(row));
}

Result<> NotebookTable::remove(const std::string& id) {
  return remove_.run(id);
}

Result<std::vector<NotebookRow>> NotebookTable::all() {
  std::vector<NotebookRow> rows;
  COVE_CHECK(all_.each([&](const Row& row) { row.read(fields(rows.emplace_back())); }));
  return rows;
}

}  // namespace cove::store
