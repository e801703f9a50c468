#include "store/tool_server_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns = "sandbox, name, sealed";

auto fields(auto& r) {
  return std::tie(r.sandbox, r.name, r.sealed);
}

}  // namespace

ToolServerTable::ToolServerTable(Database& database)
    : put_(database, fmt::format("INSERT OR REPLACE INTO tool_servers ({}) VALUES ({})", kColumns, marks(kColumns))),
      erase_(database, "DELETE FROM tool_servers WHERE sandbox = ? AND name = ?"),
      of_(database, fmt::format("SELECT {} FROM tool_servers WHERE sandbox = ? ORDER BY name", kColumns)) {}

Result<> ToolServerTable::put(const ToolServerRow& row) {
  return std::apply([&](const auto&... field) { return put_.run(field...); }, fields(row));
}

Result<> ToolServerTable::erase(std::string_view sandbox, std::string_view name) {
  return erase_.run(sandbox, name);
}

Result<std::vector<ToolServerRow>> ToolServerTable::of(std::string_view sandbox) {
  std::vector<ToolServerRow> rows;
  COVE_CHECK(of_.each([&](const Row& row) { row.read(fields(rows.emplace_back())); }, sandbox));
  return rows;
}

}  // namespace cove::store
