#include "store/callback_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::uint32_t kSweptAtOnce = 256;
constexpr std::string_view kColumns =
    "id, tenant, url, secret, state, attempts, next_unix_ms, last_status, last_error, size_bytes";

auto fields(auto& r) {
  return std::tie(r.id, r.tenant, r.url, r.secret, r.state, r.attempts, r.next_unix_ms, r.last_status, r.last_error,
                  r.size_bytes);
}

}  // namespace

CallbackTable::CallbackTable(Database& database)
    : database_(database),
      insert_(database, insert_into("callbacks", kColumns)),
      insert_body_(database, insert_into("callback_bodies", "id, body")),
      update_(database,
              "UPDATE callbacks SET state = ?1, attempts = ?2, next_unix_ms = ?3, last_status = ?4, last_error = ?5, "
              "size_bytes = CASE ?1 WHEN 'pending' THEN size_bytes ELSE 0 END WHERE id = ?6"),
      erase_body_(database, "DELETE FROM callback_bodies WHERE id = ?"),
      find_(database, fmt::format("SELECT {} FROM callbacks WHERE id = ?", kColumns)),
      body_(database, "SELECT body FROM callback_bodies WHERE id = ?"),
      pending_(database,
               "SELECT id, tenant, attempts, next_unix_ms, size_bytes FROM callbacks WHERE state = 'pending'"),
      page_(database, "SELECT max(id) FROM (SELECT id FROM callbacks WHERE id > ? ORDER BY id LIMIT ?)"),
      sweep_(database,
             "DELETE FROM callbacks WHERE id > ? AND id <= ? AND state != 'pending' AND NOT EXISTS (SELECT 1 FROM "
             "executions WHERE executions.id = callbacks.id)") {}

Result<> CallbackTable::insert(CallbackRow row, std::string_view body) {
  row.size_bytes = body.size();
  return database_.together([&]() -> Result<> {
    COVE_CHECK(std::apply([&](const auto&... field) { return insert_.run(field...); }, fields(row)));
    return insert_body_.run(row.id, body);
  });
}

Result<> CallbackTable::update(const CallbackRow& row) {
  return database_.together([&]() -> Result<> {
    COVE_CHECK(update_.run(row.state, row.attempts, row.next_unix_ms, row.last_status, row.last_error, row.id));
    return row.state == "pending" ? Result<>() : erase_body_.run(row.id);
  });
}

Result<std::optional<CallbackRow>> CallbackTable::find(std::string_view id) {
  std::optional<CallbackRow> found;
  COVE_CHECK(find_.each([&](const Row& row) { row.read(fields(found.emplace())); }, id));
  return found;
}

Result<std::optional<std::string>> CallbackTable::body(std::string_view id) {
  std::optional<std::string> found;
  COVE_CHECK(body_.each([&](const Row& row) { row.get(0, found.emplace()); }, id));
  return found;
}

Result<std::vector<CallbackRow>> CallbackTable::pending() {
  std::vector<CallbackRow> rows;
  COVE_CHECK(pending_.each([&](const Row& row) {
    auto& r = rows.emplace_back();
    row.read(std::tie(r.id, r.tenant, r.attempts, r.next_unix_ms, r.size_bytes));
  }));
  return rows;
}

Result<std::optional<std::string>> CallbackTable::sweep(std::string_view after) {
  std::optional<std::string> last;
  COVE_CHECK(page_.each([&](const Row& row) { row.get(0, last); }, after, kSweptAtOnce));
  if (last) COVE_CHECK(sweep_.run(after, *last));
  return last;
}

}  // namespace cove::store
