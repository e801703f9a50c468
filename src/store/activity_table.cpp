#include "store/activity_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns =
    "seq, at_unix_ms, tenant, sandbox, sandbox_name, door, client, key_id, kind, summary, reference, detail_json, "
    "duration_ms, outcome, good, result_json";
constexpr int kEvictedAtOnce = 64;  // a bound that was lowered is reached step by step

auto fields(auto& r) {
  return std::tie(r.seq, r.at_unix_ms, r.tenant, r.sandbox, r.sandbox_name, r.door, r.client, r.key_id, r.kind,
                  r.summary, r.reference, r.detail_json, r.duration_ms, r.outcome, r.good, r.result_json);
}

}  // namespace

std::uint64_t ActivityRow::bytes() const {
  return 200 + client.size() + summary.size() + detail_json.size() + repeat.size();
}

ActivityTable::ActivityTable(Database& database)
    : database_(database),
      insert_(database, insert_into("activity", fmt::format("{}, repeat, size_bytes", kColumns))),
      end_(database, "UPDATE activity SET duration_ms = ?, outcome = ?, good = ?, result_json = ? WHERE seq = ?"),
      read_(database, fmt::format("SELECT {} FROM activity WHERE tenant = ?1 AND seq >= ?2 AND (?3 = '' OR sandbox = "
                                  "?3) AND (?4 = '' OR kind = ?4) ORDER BY seq LIMIT ?5",
                                  kColumns)),
      repeat_(database, "SELECT repeat FROM activity WHERE seq = ? AND repeat != ''"),
      last_sandbox_(database,
                    "SELECT sandbox FROM activity WHERE tenant = ? AND sandbox_name = ? ORDER BY seq DESC LIMIT 1"),
      evict_(database,
             "DELETE FROM activity WHERE seq = (SELECT min(seq) FROM activity WHERE tenant = ?) RETURNING seq, "
             "size_bytes"),
      lose_(database,
            "INSERT INTO activity_gaps (tenant, lost_seq) VALUES (?1, ?2) ON CONFLICT (tenant) DO UPDATE SET lost_seq "
            "= max(lost_seq, ?2)"),
      lost_(database, "SELECT lost_seq FROM activity_gaps WHERE tenant = ?"),
      unfinished_(database, fmt::format("SELECT {} FROM activity WHERE duration_ms IS NULL", kColumns)),
      // AUTOINCREMENT keeps the highest number here, also when its row is gone.
      last_(database, "SELECT seq FROM sqlite_sequence WHERE name = 'activity'"),
      count_(database, "SELECT tenant, count(*), sum(size_bytes) FROM activity GROUP BY tenant") {}

Result<> ActivityTable::count() {
  if (counted_) return {};
  usage_ = {};
  COVE_CHECK(count_.each([&](const Row& row) {
    std::string tenant;
    row.get(0, tenant);
    usage_.charge(tenant, {.count = static_cast<std::uint64_t>(row.number(1)),
                           .bytes = static_cast<std::uint64_t>(row.number(2))});
  }));
  counted_ = true;
  return {};
}

Result<> ActivityTable::make_room(const std::string& tenant) {
  for (int n = 0; n < kEvictedAtOnce; ++n) {
    const auto bound = usage_.passed(tenant, {}, bounds_);
    if (bound == Bound::none) return {};
    const bool own = bound == Bound::tenant_count || bound == Bound::tenant_bytes;
    const auto loser = own ? tenant : usage_.largest_holder(bound);
    std::int64_t lost = 0;
    std::uint64_t bytes = 0;
    COVE_CHECK(evict_.each([&](const Row& row) { row.read(std::tie(lost, bytes)); }, loser));
    if (lost == 0) return {};
    COVE_CHECK(lose_.run(loser, lost));
    usage_.release(loser, {.count = 1, .bytes = bytes});
    ++evicted_;
  }
  return {};
}

Result<> ActivityTable::write(const std::vector<ActivityRow>& begun, const std::vector<ActivityEnd>& ended) {
  COVE_CHECK(count());
  auto written = database_.together([&]() -> Result<> {
    for (const auto& row : begun) {
      const auto bytes = row.bytes();
      COVE_CHECK(
          std::apply([&](const auto&... field) { return insert_.run(field..., row.repeat, bytes); }, fields(row)));
      usage_.charge(row.tenant, {.count = 1, .bytes = bytes});
      COVE_CHECK(make_room(row.tenant));
    }
    for (const auto& end : ended)
      COVE_CHECK(end_.run(end.duration_ms, end.outcome, end.good, end.result_json, end.seq));
    return {};
  });
  if (!written) counted_ = false;  // whatever was undone
  return written;
}

Result<std::vector<ActivityRow>> ActivityTable::read(const ActivityQuery& query) {
  std::vector<ActivityRow> rows;
  COVE_CHECK(read_.each([&](const Row& row) { row.read(fields(rows.emplace_back())); }, query.tenant, query.from,
                        query.sandbox, query.kind, query.limit));
  return rows;
}

Result<std::optional<std::string>> ActivityTable::repeat_of(std::int64_t seq) {
  std::optional<std::string> found;
  COVE_CHECK(repeat_.each([&](const Row& row) { row.get(0, found); }, seq));
  return found;
}

Result<std::optional<std::string>> ActivityTable::last_sandbox(std::string_view tenant, std::string_view name) {
  std::optional<std::string> found;
  COVE_CHECK(last_sandbox_.each([&](const Row& row) { row.get(0, found); }, tenant, name));
  return found;
}

Result<std::int64_t> ActivityTable::lost_through(std::string_view tenant) {
  std::int64_t lost = 0;
  COVE_CHECK(lost_.each([&](const Row& row) { row.get(0, lost); }, tenant));
  return lost;
}

Result<std::vector<ActivityRow>> ActivityTable::unfinished() {
  std::vector<ActivityRow> rows;
  COVE_CHECK(unfinished_.each([&](const Row& row) { row.read(fields(rows.emplace_back())); }));
  return rows;
}

Result<std::int64_t> ActivityTable::last_seq() {
  std::int64_t last = 0;
  COVE_CHECK(last_.each([&](const Row& row) { row.get(0, last); }));
  return last;
}

Result<Amount> ActivityTable::kept() {
  COVE_CHECK(count());
  return usage_.all();
}

}  // namespace cove::store
