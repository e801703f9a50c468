#include "store/idempotency_table.hpp"

#include <tuple>

#include "store/columns.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns = "tenant, key, request_hash, status, body, created_unix_ms";

auto fields(auto& r) {
  return std::tie(r.tenant, r.key, r.request_hash, r.status, r.body, r.created_unix_ms);
}

}  // namespace

IdempotencyTable::IdempotencyTable(Database& database)
    : insert_(database, insert_into("idempotency", kColumns)),
      find_(database, fmt::format("SELECT {} FROM idempotency WHERE tenant = ? AND key = ?", kColumns)),
      erase_(database, "DELETE FROM idempotency WHERE tenant = ? AND key = ?"),
      prune_(database, "DELETE FROM idempotency WHERE created_unix_ms < ?") {}

Result<> IdempotencyTable::insert(const IdempotencyRow& row) {
  return std::apply([&](const auto&... field) { return insert_.run(field...); }, fields(row));
}

Result<std::optional<IdempotencyRow>> IdempotencyTable::find(std::string_view tenant, std::string_view key) {
  std::optional<IdempotencyRow> found;
  COVE_CHECK(find_.each([&](const Row& row) { row.read(fields(found.emplace())); }, tenant, key));
  return found;
}

Result<> IdempotencyTable::erase(std::string_view tenant, std::string_view key) {
  return erase_.run(tenant, key);
}

Result<> IdempotencyTable::prune(std::int64_t now_unix_ms) {
  return prune_.run(now_unix_ms - kKeptMs);
}

}  // namespace cove::store
