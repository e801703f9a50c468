#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// What a tenant's key allows. 0: no limit of its own, the server's apply.
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
  std::string hash;    // sha256_hex of the key; the key itself is nowhere
  std::string prefix;  // its first characters, to recognise it by
  std::int64_t created_unix_ms = 0;
  std::optional<std::int64_t> revoked_unix_ms;
  KeyQuotas quotas;
  std::string note;
  bool operates = false;  // may also do what concerns every tenant: build and delete templates

  bool operator==(const KeyRow&) const = default;
};

class KeyTable {
 public:
  explicit KeyTable(Database& database);

  Result<> create(const KeyRow& row);
  // All of them, the revoked too, oldest first; of one tenant when it is named.
  Result<std::vector<KeyRow>> list(const std::optional<std::string>& tenant = std::nullopt);
  // The row as it is now. One that was revoked before keeps its time. Errc::not_found for an unknown id.
  Result<KeyRow> revoke(std::string_view id, std::int64_t now_unix_ms);
  // The key that hashes to this, unless it is revoked.
  Result<std::optional<KeyRow>> find_by_hash(std::string_view hash);
  // Keys that are not revoked.
  Result<std::int64_t> count();

 private:
  Statement create_, list_, revoke_, get_, find_, count_;
};

}  // namespace cove::store
