#include "store/key_table.hpp"

#include <tuple>

#include "base/sha256.hpp"
#include "store/columns.hpp"
#include "store/secret.hpp"

namespace cove::store {
namespace {

constexpr std::string_view kColumns =
    "id, tenant, hash, prefix, created_unix_ms, revoked_unix_ms, max_sandboxes, max_memory_bytes,"
    "executions_per_minute, concurrent_executions, note, operates";

auto fields(auto& r) {
  return std::tie(r.id, r.tenant, r.hash, r.prefix, r.created_unix_ms, r.revoked_unix_ms, r.quotas.max_sandboxes,
                  r.quotas.max_memory_bytes, r.quotas.executions_per_minute, r.quotas.concurrent_executions, r.note,
                  r.operates);
}

auto into(std::optional<KeyRow>& found) {
  return [&found](const Row& row) { row.read(fields(found.emplace())); };
}

}  // namespace

KeyTable::KeyTable(Database& database)
    : create_(database, insert_into("keys", kColumns)),
      list_(database, fmt::format("SELECT {} FROM keys WHERE ?1 IS NULL OR tenant = ?1 ORDER BY created_unix_ms, rowid",
                                  kColumns)),
      revoke_(database, "UPDATE keys SET revoked_unix_ms = coalesce(revoked_unix_ms, ?2) WHERE id = ?1"),
      get_(database, fmt::format("SELECT {} FROM keys WHERE id = ?", kColumns)),
      find_(database, fmt::format("SELECT {} FROM keys WHERE hash = ? AND revoked_unix_ms IS NULL", kColumns)),
      count_(database, "SELECT count(*) FROM keys WHERE revoked_unix_ms IS NULL") {}

Result<> KeyTable::create(const KeyRow& row) {
  return std::apply([&](const auto&... field) { return create_.run(field...); }, fields(row));
}

Result<std::vector<KeyRow>> KeyTable::list(const std::optional<std::string>& tenant) {
  std::vector<KeyRow> rows;
  COVE_CHECK(list_.each([&](const Row& row) { row.read(fields(rows.emplace_back())); }, tenant));
  return rows;
}

Result<KeyRow> KeyTable::revoke(std::string_view id, std::int64_t now_unix_ms) {
  COVE_CHECK(revoke_.run(id, now_unix_ms));
  std::optional<KeyRow> found;
  COVE_CHECK(get_.each(into(found), id));
  if (!found) return fail(Errc::not_found, fmt::format("there is no key '{}'", id));
  return std::move(*found);
}

Result<std::optional<KeyRow>> KeyTable::find_by_hash(std::string_view hash) {
  std::optional<KeyRow> found;
  COVE_CHECK(find_.each(into(found), hash));
  // The index compares byte by byte, but what it compares is a hash: its timing tells nothing that leads to a key.
  if (found && !equal_in_constant_time(found->hash, hash)) found.reset();
  return found;
}

Result<std::int64_t> KeyTable::count() {
  std::int64_t keys = 0;
  COVE_CHECK(count_.each([&](const Row& row) { row.get(0, keys); }));
  return keys;
}

}  // namespace cove::store
