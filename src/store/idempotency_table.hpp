#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/tenant_usage.hpp"
#include "store/database.hpp"

namespace cove::store {

// The answer to a request with an Idempotency-Key, to be sent again when the request is repeated.
struct IdempotencyRow {
  std::string tenant;
  std::string key;
  std::string request_hash;  // sha256_hex of the request, to tell a repetition from a reused key
  std::int32_t status = 0;
  std::string body;
  std::int64_t created_unix_ms = 0;

  bool operator==(const IdempotencyRow&) const = default;
};

// The newest answers of every tenant, for kKeptMs at most. Past its bound a tenant loses its own oldest; past the bound
// for all, the largest tenant loses its oldest.
class IdempotencyTable {
 public:
  static constexpr std::int64_t kKeptMs = 24LL * 3600 * 1000;

  explicit IdempotencyTable(Database& database);

  void set_bounds(UsageBounds bounds) { bounds_ = bounds; }
  // Errc::exists when the tenant has used this key.
  Result<> insert(const IdempotencyRow& row);
  Result<std::optional<IdempotencyRow>> find(std::string_view tenant, std::string_view key);
  // Deletes a batch of answers older than kKeptMs at `now_unix_ms`.
  Result<> prune(std::int64_t now_unix_ms);

  // Of all tenants: keys, hashes and bodies.
  Result<Amount> kept();
  // Dropped because of a bound.
  [[nodiscard]] const std::uint64_t& evicted() const { return evicted_; }

 private:
  // Counts what every tenant has, on first use.
  Result<> count();
  Result<> make_room(const std::string& tenant);

  Database& database_;
  Statement insert_, find_, evict_, prune_, count_;
  UsageBounds bounds_;
  bool counted_ = false;
  TenantUsage usage_;
  std::uint64_t evicted_ = 0;
};

}  // namespace cove::store
