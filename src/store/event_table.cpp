#include "store/event_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns = "at_unix_ms, tenant, type, sandbox, pod_name, data_json";
constexpr int kEvictedAtOnce = 64;  // a bound that was lowered is reached step by step

auto fields(auto& r) {
  return std::tie(r.at_unix_ms, r.tenant, r.type, r.sandbox, r.pod_name, r.data_json);
}

}  // namespace

EventTable::EventTable(Database& database)
    : database_(database),
      append_(database, insert_into("events", kColumns)),
      after_(database,
             fmt::format("SELECT {}, seq FROM events WHERE tenant = ? AND seq > ? ORDER BY seq LIMIT ?", kColumns)),
      evict_(database, "DELETE FROM events WHERE seq = (SELECT min(seq) FROM events WHERE tenant = ?) RETURNING seq"),
      lose_(database,
            "INSERT INTO event_gaps (tenant, lost_seq) VALUES (?1, ?2) ON CONFLICT (tenant) DO UPDATE SET lost_seq = "
            "max(lost_seq, ?2)"),
      // The tenant "" stands for all: what was forgotten before tenants were kept apart.
      lost_(database, "SELECT max(lost_seq) FROM event_gaps WHERE tenant IN (?, '')"),
      // AUTOINCREMENT keeps the highest number here, also when its row is gone.
      last_(database, "SELECT seq FROM sqlite_sequence WHERE name = 'events'"),
      count_(database, "SELECT tenant, count(*), max(seq) FROM events GROUP BY tenant") {}

Result<> EventTable::count() {
  if (counted_) return {};
  usage_ = {};
  newest_.clear();
  COVE_CHECK(count_.each([&](const Row& row) {
    std::string tenant;
    row.get(0, tenant);
    usage_.charge(tenant, {.count = static_cast<std::uint64_t>(row.number(1)), .bytes = 0});
    newest_[tenant] = row.number(2);
  }));
  counted_ = true;
  return {};
}

Result<> EventTable::make_room(const std::string& tenant) {
  for (int n = 0; n < kEvictedAtOnce; ++n) {
    const auto bound = usage_.passed(tenant, {}, bounds_);
    if (bound == Bound::none) return {};
    const auto loser = bound == Bound::tenant_count ? tenant : usage_.largest_holder(bound);
    std::int64_t lost = 0;
    COVE_CHECK(evict_.each([&](const Row& row) { row.get(0, lost); }, loser));
    if (lost == 0) return {};
    COVE_CHECK(lose_.run(loser, lost));
    usage_.release(loser, {.count = 1, .bytes = 0});
    ++evicted_;
  }
  return {};
}

Result<std::int64_t> EventTable::append(const EventRow& row) {
  COVE_CHECK(count());
  std::int64_t seq = 0;
  const auto written = database_.together([&]() -> Result<> {
    COVE_CHECK(std::apply([&](const auto&... field) { return append_.run(field...); }, fields(row)));
    seq = database_.last_row_id();
    usage_.charge(row.tenant, {.count = 1, .bytes = 0});
    newest_[row.tenant] = seq;
    return make_room(row.tenant);
  });
  if (written) return seq;
  counted_ = false;  // whatever was undone
  return tl::unexpected<Error>(written.error());
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

Result<std::int64_t> EventTable::lost_through(std::string_view tenant) {
  std::optional<std::int64_t> lost;
  COVE_CHECK(lost_.each([&](const Row& row) { row.get(0, lost); }, tenant));
  return lost.value_or(0);
}

Result<std::int64_t> EventTable::last_of(std::string_view tenant) {
  COVE_CHECK(count());
  const auto found = newest_.find(tenant);
  return found == newest_.end() ? 0 : found->second;
}

Result<std::int64_t> EventTable::last_seq() {
  std::int64_t last = 0;
  COVE_CHECK(last_.each([&](const Row& row) { row.get(0, last); }));
  return last;
}

Result<std::uint64_t> EventTable::kept() {
  COVE_CHECK(count());
  return usage_.all().count;
}

}  // namespace cove::store
