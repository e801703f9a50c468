#include "store/callback_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns =
    "id, tenant, url, secret, body, state, attempts, next_unix_ms, last_status, last_error";

auto fields(auto& r) {
  return std::tie(r.id, r.tenant, r.url, r.secret, r.body, r.state, r.attempts, r.next_unix_ms, r.last_status,
                  r.last_error);
}

CallbackRow read(const Row& row) {
  CallbackRow callback;
  row.read(fields(callback));
  return callback;
}

}  // namespace

CallbackTable::CallbackTable(Database& database)
    : insert_(database, insert_into("callbacks", kColumns)),
      update_(database,
              "UPDATE callbacks SET state = ?1, attempts = ?2, next_unix_ms = ?3, last_status = ?4, last_error = ?5, "
              "body = CASE ?1 WHEN 'pending' THEN body ELSE '' END WHERE id = ?6"),
      find_(database, fmt::format("SELECT {} FROM callbacks WHERE id = ?", kColumns)),
      due_(database, fmt::format("SELECT {} FROM callbacks WHERE state = 'pending' AND next_unix_ms <= ? ORDER BY "
                                 "next_unix_ms LIMIT ?",
                                 kColumns)),
      next_(database, "SELECT min(next_unix_ms) FROM callbacks WHERE state = 'pending'"),
      sweep_(database, "DELETE FROM callbacks WHERE state != 'pending' AND id NOT IN (SELECT id FROM executions)") {}

Result<> CallbackTable::insert(const CallbackRow& row) {
  return std::apply([&](const auto&... field) { return insert_.run(field...); }, fields(row));
}

Result<> CallbackTable::update(const CallbackRow& row) {
  return update_.run(row.state, row.attempts, row.next_unix_ms, row.last_status, row.last_error, row.id);
}

Result<std::optional<CallbackRow>> CallbackTable::find(std::string_view id) {
  std::optional<CallbackRow> found;
  COVE_CHECK(find_.each([&](const Row& row) { found = read(row); }, id));
  return found;
}

Result<std::vector<CallbackRow>> CallbackTable::due(std::int64_t now_unix_ms, std::uint32_t limit) {
  std::vector<CallbackRow> rows;
  COVE_CHECK(due_.each([&](const Row& row) { rows.push_back(read(row)); }, now_unix_ms, limit));
  return rows;
}

Result<std::optional<std::int64_t>> CallbackTable::next_time() {
  std::optional<std::int64_t> next;
  COVE_CHECK(next_.each([&](const Row& row) { row.get(0, next); }));
  return next;
}

Result<> CallbackTable::sweep() {
  return sweep_.run();
}

}  // namespace cove::store
