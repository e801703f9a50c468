#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/tenant_usage.hpp"
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

// The newest answers of every tenant, for kKeptMs at most. Past its bound a tenant loses its own oldest; past the bound
// of all, the tenant that has the most loses its oldest.
class IdempotencyTable {
 public:
  static constexpr std::int64_t kKeptMs = 24LL * 3600 * 1000;

  explicit IdempotencyTable(Database& database);

  void set_bounds(UsageBounds bounds) { bounds_ = bounds; }
  // Errc::exists when the tenant has used this key.
  Result<> insert(const IdempotencyRow& row);
  Result<std::optional<IdempotencyRow>> find(std::string_view tenant, std::string_view key);
  // Forgets what was answered more than kKeptMs before `now_unix_ms`, some of it at a time.
  Result<> prune(std::int64_t now_unix_ms);

  // Of all tenants: keys, hashes and bodies.
  Result<Amount> kept();
  // Because of a bound.
  [[nodiscard]] const std::uint64_t& evicted() const { return evicted_; }

 private:
  // What every tenant has, when it is first needed.
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
