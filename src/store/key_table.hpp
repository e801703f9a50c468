#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// The quotas of a key. 0: only the server's limits apply.
struct KeyQuotas {
  std::uint32_t max_sandboxes = 0;
  std::uint64_t max_memory_bytes = 0;  // of all its sandboxes together
  std::uint32_t executions_per_minute = 0;
  std::uint32_t concurrent_executions = 0;

  bool operator==(const KeyQuotas&) const = default;
};

struct KeyRow {
  std::string id;  // "key_…", not a secret
  std::string tenant;
  std::string hash;    // sha256_hex of the key; the key itself is not stored
  std::string prefix;  // its first characters, to recognise it by
  std::int64_t created_unix_ms = 0;
  std::optional<std::int64_t> revoked_unix_ms;
  KeyQuotas quotas;
  std::string note;
  bool operates = false;  // may also build and delete templates, which all tenants share

  bool operator==(const KeyRow&) const = default;
};

class KeyTable {
 public:
  explicit KeyTable(Database& database);

  Result<> create(const KeyRow& row);
  // All keys, revoked ones too, oldest first; with a tenant, only its keys.
  Result<std::vector<KeyRow>> list(const std::optional<std::string>& tenant = std::nullopt);
  // Returns the row after the change. A key that was already revoked keeps its time. Errc::not_found for an unknown id.
  Result<KeyRow> revoke(std::string_view id, std::int64_t now_unix_ms);
  // The active key with this hash.
  Result<std::optional<KeyRow>> find_by_hash(std::string_view hash);
  // Keys that are not revoked.
  Result<std::int64_t> count();

 private:
  Statement create_, list_, revoke_, get_, find_, count_;
};

}  // namespace cove::store
