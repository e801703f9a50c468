#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/tenant_usage.hpp"
#include "store/database.hpp"

namespace cove::store {

// One act in a sandbox, as the journal keeps it.
struct ActivityRow {
  std::int64_t seq = 0;  // given by the journal: increasing over all tenants
  std::int64_t at_unix_ms = 0;
  std::string tenant;
  std::string sandbox;       // SandboxRow::id
  std::string sandbox_name;  // SandboxRow::name
  std::string door;
  std::string client;
  std::string key_id;
  std::string kind;
  std::string summary;
  std::string reference;
  std::string detail_json = "{}";
  std::string repeat;                       // sealed: what it takes to do it again; "": it cannot be done again
  std::optional<std::int64_t> duration_ms;  // none: it goes on
  std::string outcome;
  bool good = false;
  std::string result_json = "{}";

  [[nodiscard]] std::uint64_t bytes() const;
  bool operator==(const ActivityRow&) const = default;
};

struct ActivityEnd {
  std::int64_t seq = 0;
  std::int64_t duration_ms = 0;
  std::string outcome;
  bool good = false;
  std::string result_json = "{}";
};

// Which acts to read. Empty fields match all.
struct ActivityQuery {
  std::string tenant;
  std::string sandbox;
  std::string kind;
  std::int64_t from = 1;  // the first number
  std::uint32_t limit = 100;
};

// The newest acts of every tenant. Past its bound a tenant loses its own oldest; past the bound for all, the largest
// tenant loses its oldest.
class ActivityTable {
 public:
  explicit ActivityTable(Database& database);

  void set_bounds(UsageBounds bounds) { bounds_ = bounds; }
  // All of it, or nothing.
  Result<> write(const std::vector<ActivityRow>& begun, const std::vector<ActivityEnd>& ended);
  // Oldest first, without what it takes to do them again.
  Result<std::vector<ActivityRow>> read(const ActivityQuery& query);
  // The sealed `repeat` of one act; none when it is not kept.
  Result<std::optional<std::string>> repeat_of(std::int64_t seq);
  // The sandbox that had this name last, as far as acts are kept.
  Result<std::optional<std::string>> last_sandbox(std::string_view tenant, std::string_view name);
  // The greatest number among the tenant's forgotten acts; 0 when none was forgotten.
  Result<std::int64_t> lost_through(std::string_view tenant);
  // Those that have not ended: number, sandbox and reference.
  Result<std::vector<ActivityRow>> unfinished();
  // The greatest number that was ever given.
  Result<std::int64_t> last_seq();

  // Of all tenants.
  Result<Amount> kept();
  [[nodiscard]] const std::uint64_t& evicted() const { return evicted_; }

 private:
  Result<> count();
  Result<> make_room(const std::string& tenant);

  Database& database_;
  Statement insert_, end_, read_, repeat_, last_sandbox_, evict_, lose_, lost_, unfinished_, last_, count_;
  UsageBounds bounds_;
  bool counted_ = false;
  TenantUsage usage_;
  std::uint64_t evicted_ = 0;
};

}  // namespace cove::store
