#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/database.hpp"

namespace cove::store {

// The answer a request with an Idempotency-Key got, to be given again when it is repeated.
struct IdempotencyRow {
  std::string tenant;
  std::string key;
  std::string request_hash;  // sha256_hex of what was asked, to tell a repeat from a reuse
  std::int32_t status = 0;
  std::string body;
  std::int64_t created_unix_ms = 0;

  bool operator==(const IdempotencyRow&) const = default;
};

class IdempotencyTable {
 public:
  static constexpr std::int64_t kKeptMs = 24LL * 3600 * 1000;

  explicit IdempotencyTable(Database& database);

  // Errc::exists when the tenant has used this key.
  Result<> insert(const IdempotencyRow& row);
  Result<std::optional<IdempotencyRow>> find(std::string_view tenant, std::string_view key);
  Result<> erase(std::string_view tenant, std::string_view key);
  // Forgets what was answered more than kKeptMs before `now_unix_ms`.
  Result<> prune(std::int64_t now_unix_ms);

 private:
  Statement insert_, find_, erase_, prune_;
};

}  // namespace cove::store
