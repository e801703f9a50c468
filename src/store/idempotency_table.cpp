#include "store/idempotency_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns = "tenant, key, request_hash, status, body, created_unix_ms, size_bytes";
constexpr int kEvictedAtOnce = 64;  // a bound that was lowered is reached step by step
constexpr int kPrunedAtOnce = 256;

auto fields(auto& r, auto& size) {
  return std::tie(r.tenant, r.key, r.request_hash, r.status, r.body, r.created_unix_ms, size);
}

}  // namespace

IdempotencyTable::IdempotencyTable(Database& database)
    : database_(database),
      insert_(database, insert_into("idempotency", kColumns)),
      find_(database, fmt::format("SELECT {} FROM idempotency WHERE tenant = ? AND key = ?", kColumns)),
      evict_(
          database,
          "DELETE FROM idempotency WHERE (tenant, key) = (SELECT tenant, key FROM idempotency WHERE tenant = ? ORDER "
          "BY created_unix_ms LIMIT 1) RETURNING size_bytes"),
      prune_(database,
             "DELETE FROM idempotency WHERE (tenant, key) IN (SELECT tenant, key FROM idempotency WHERE "
             "created_unix_ms < ? ORDER BY created_unix_ms LIMIT ?) RETURNING tenant, size_bytes"),
      count_(database, "SELECT tenant, count(*), sum(size_bytes) FROM idempotency GROUP BY tenant") {}

Result<> IdempotencyTable::count() {
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

Result<> IdempotencyTable::make_room(const std::string& tenant) {
  for (int n = 0; n < kEvictedAtOnce; ++n) {
    const auto bound = usage_.passed(tenant, {}, bounds_);
    if (bound == Bound::none) return {};
    const bool own = bound == Bound::tenant_count || bound == Bound::tenant_bytes;
    const auto loser = own ? tenant : usage_.largest_holder(bound);
    std::optional<std::uint64_t> size;
    COVE_CHECK(evict_.each([&](const Row& row) { row.get(0, size); }, loser));
    if (!size) return {};
    usage_.release(loser, {.count = 1, .bytes = *size});
    ++evicted_;
  }
  return {};
}

Result<> IdempotencyTable::insert(const IdempotencyRow& row) {
  COVE_CHECK(count());
  const std::uint64_t size = row.key.size() + row.request_hash.size() + row.body.size();
  auto written = database_.together([&]() -> Result<> {
    COVE_CHECK(std::apply([&](const auto&... field) { return insert_.run(field...); }, fields(row, size)));
    usage_.charge(row.tenant, {.count = 1, .bytes = size});
    return make_room(row.tenant);
  });
  if (!written) counted_ = false;  // whatever was undone
  return written;
}

Result<std::optional<IdempotencyRow>> IdempotencyTable::find(std::string_view tenant, std::string_view key) {
  std::optional<IdempotencyRow> found;
  std::uint64_t size = 0;
  COVE_CHECK(find_.each([&](const Row& row) { row.read(fields(found.emplace(), size)); }, tenant, key));
  return found;
}

Result<> IdempotencyTable::prune(std::int64_t now_unix_ms) {
  COVE_CHECK(count());
  return prune_.each(
      [&](const Row& row) {
        std::string tenant;
        row.get(0, tenant);
        usage_.release(tenant, {.count = 1, .bytes = static_cast<std::uint64_t>(row.number(1))});
      },
      now_unix_ms - kKeptMs, kPrunedAtOnce);
}

Result<Amount> IdempotencyTable::kept() {
  COVE_CHECK(count());
  return usage_.all();
}

}  // namespace cove::store
