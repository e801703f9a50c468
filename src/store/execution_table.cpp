#include "store/execution_table.hpp"

#include <algorithm>
#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns =
    "id, sandbox, sandbox_name, tenant, status, language, kernel, code, request_json, created_unix_ms, "
    "deadline_boot_ms, callback_url, "
    "callback_secret, started_unix_ms, ended_unix_ms, result_json";

auto fields(auto& r) {
  return std::tie(r.id, r.sandbox, r.sandbox_name, r.tenant, r.status, r.language, r.kernel, r.code, r.request_json,
                  r.created_unix_ms, r.deadline_boot_ms, r.callback_url, r.callback_secret, r.started_unix_ms,
                  r.ended_unix_ms, r.result_json);
}

ExecutionRow read(const Row& row) {
  ExecutionRow execution;
  row.read(std::tuple_cat(fields(execution), std::tie(execution.seq)));
  return execution;
}

}  // namespace

ExecutionTable::ExecutionTable(Database& database)
    : insert_(database, insert_into("executions", kColumns)),
      begin_(database,
             "UPDATE executions SET status = 'running', started_unix_ms = ?, deadline_boot_ms = ? WHERE id = ?"),
      finish_(database,
              "UPDATE executions SET status = ?, ended_unix_ms = ?, result_json = ?, size_bytes = ? WHERE id = ?"),
      find_(database, fmt::format("SELECT {}, seq FROM executions WHERE sandbox = ? AND id = ?", kColumns)),
      of_(database,
          fmt::format("SELECT {}, seq FROM executions WHERE sandbox = ?1 AND (?2 = 0 OR seq < ?2) AND (?3 = '' "
                      "OR status = ?3) ORDER BY seq DESC LIMIT ?4",
                      kColumns)),
      unfinished_(database,
                  fmt::format("SELECT {}, seq FROM executions WHERE status IN ('pending', 'running')", kColumns)),
      prune_(database,
             "DELETE FROM executions WHERE seq IN (SELECT seq FROM (SELECT seq, row_number() OVER newest AS place, "
             "sum(size_bytes) OVER newest AS bytes FROM executions WHERE sandbox = ? AND size_bytes > 0 WINDOW newest "
             "AS (ORDER BY seq DESC)) WHERE place > ? OR (bytes > ? AND place > 1))"),
      evict_(database,
             "DELETE FROM executions WHERE seq = (SELECT min(seq) FROM executions WHERE tenant = ? AND size_bytes > 0) "
             "RETURNING sandbox"),
      history_(database,
               "SELECT sandbox, tenant, count(*), sum(size_bytes) FROM executions WHERE size_bytes > 0 GROUP BY "
               "sandbox"),
      history_of_(database, "SELECT count(*), sum(size_bytes) FROM executions WHERE sandbox = ? AND size_bytes > 0") {}

Result<> ExecutionTable::insert(const ExecutionRow& row) {
  return std::apply([&](const auto&... field) { return insert_.run(field...); }, fields(row));
}

Result<> ExecutionTable::begin(std::string_view id, std::int64_t started_unix_ms, std::int64_t deadline_boot_ms) {
  return begin_.run(started_unix_ms, deadline_boot_ms, id);
}

Result<> ExecutionTable::finish(const ExecutionRow& row) {
  // Never 0: that is one that has not ended.
  const auto size = std::max<std::size_t>(1, row.code.size() + (row.result_json ? row.result_json->size() : 0));
  return finish_.run(row.status, row.ended_unix_ms, row.result_json, size, row.id);
}

Result<ExecutionRow> ExecutionTable::find(std::string_view sandbox, std::string_view id) {
  std::optional<ExecutionRow> found;
  COVE_CHECK(find_.each([&](const Row& row) { found = read(row); }, sandbox, id));
  if (!found) return fail(Errc::not_found, "no such execution");
  return std::move(*found);
}

Result<std::vector<ExecutionRow>> ExecutionTable::of(std::string_view sandbox, std::int64_t before,
                                                     std::string_view status, std::uint32_t limit) {
  std::vector<ExecutionRow> rows;
  COVE_CHECK(of_.each([&](const Row& row) { rows.push_back(read(row)); }, sandbox, before, status, limit));
  return rows;
}

Result<std::vector<ExecutionRow>> ExecutionTable::unfinished() {
  std::vector<ExecutionRow> rows;
  COVE_CHECK(unfinished_.each([&](const Row& row) { rows.push_back(read(row)); }));
  return rows;
}

Result<std::optional<std::string>> ExecutionTable::evict_oldest(std::string_view tenant) {
  std::optional<std::string> sandbox;
  COVE_CHECK(evict_.each([&](const Row& row) { row.get(0, sandbox); }, tenant));
  return sandbox;
}

Result<std::vector<ExecutionHistoryRow>> ExecutionTable::history() {
  std::vector<ExecutionHistoryRow> rows;
  COVE_CHECK(history_.each([&](const Row& row) {
    auto& r = rows.emplace_back();
    row.read(std::tie(r.sandbox, r.tenant, r.amount.count, r.amount.bytes));
  }));
  return rows;
}

Result<Amount> ExecutionTable::history_of(std::string_view sandbox) {
  Amount amount;
  COVE_CHECK(history_of_.each([&](const Row& row) { row.read(std::tie(amount.count, amount.bytes)); }, sandbox));
  return amount;
}

Result<> ExecutionTable::prune(std::string_view sandbox, std::uint32_t keep, std::uint64_t bytes) {
  return prune_.run(sandbox, keep, bytes);
}

}  // namespace cove::store
