#include "store/event_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns = "at_unix_ms, tenant, type, sandbox, pod_name, data_json";

auto fields(auto& r) {
  return std::tie(r.at_unix_ms, r.tenant, r.type, r.sandbox, r.pod_name, r.data_json);
}

}  // namespace

EventTable::EventTable(Database& database)
    : database_(database),
      append_(database, insert_into("events", kColumns)),
      after_(database,
             fmt::format("SELECT {}, seq FROM events WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT ?", kColumns)),
      prune_(database, "DELETE FROM events WHERE seq <= (SELECT seq FROM events ORDER BY seq DESC LIMIT 1 OFFSET ?)"),
      first_(database, "SELECT min(seq) FROM events"),
      // AUTOINCREMENT keeps the highest number here, also when its row is gone.
      last_(database, "SELECT seq FROM sqlite_sequence WHERE name = 'events'") {}

Result<std::int64_t> EventTable::append(const EventRow& row) {
  COVE_CHECK(std::apply([&](const auto&... field) { return append_.run(field...); }, fields(row)));
  return database_.last_row_id();
}

Result<std::vector<EventRow>> EventTable::after(std::string_view tenant, std::int64_t seq, std::uint32_t limit) {
  std::vector<EventRow> rows;
  COVE_CHECK(after_.each(
      [&](const Row& row) {
        auto& event = rows.emplace_back();
        row.read(std::tuple_cat(fields(event), std::tie(event.seq)));
      },
      tenant, seq, limit));
  return rows;
}

Result<> EventTable::prune(std::uint32_t keep) {
  return prune_.run(keep);
}

Result<std::int64_t> EventTable::first_seq() {
  std::optional<std::int64_t> first;
  COVE_CHECK(first_.each([&](const Row& row) { row.get(0, first); }));
  if (first) return *first;
  COVE_TRY(const auto last, last_seq());
  return last + 1;
}

Result<std::int64_t> EventTable::last_seq() {
  std::int64_t last = 0;
  COVE_CHECK(last_.each([&](const Row& row) { row.get(0, last); }));
  return last;
}

}  // namespace cove::store
