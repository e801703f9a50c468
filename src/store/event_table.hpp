#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/tenant_usage.hpp"
#include "store/database.hpp"

namespace cove::store {

// One lifecycle event of a tenant.
struct EventRow {
  std::int64_t seq = 0;  // set by `append`: increasing over all tenants, never reused
  std::int64_t at_unix_ms = 0;
  std::string tenant;
  std::string type;
  std::string sandbox;  // SandboxRow::name
  std::string pod_name;
  std::string data_json = "{}";

  bool operator==(const EventRow&) const = default;
};

// The newest events of every tenant. Past its bound a tenant loses its own oldest; past the bound for all, the largest
// tenant loses its oldest.
class EventTable {
 public:
  explicit EventTable(Database& database);

  void set_bounds(UsageBounds bounds) { bounds_ = bounds; }
  // Returns the number of the event. `row.seq` is ignored.
  Result<std::int64_t> append(const EventRow& row);
  // The tenant's events with a greater number, oldest first.
  Result<std::vector<EventRow>> after(std::string_view tenant, std::int64_t seq, std::uint32_t limit);
  // The greatest number among the tenant's dropped events; 0 when none was dropped. All with a greater number are kept.
  Result<std::int64_t> lost_through(std::string_view tenant);
  // The number of the tenant's newest event; 0 when it has none. Reads the database only the first time.
  Result<std::int64_t> last_of(std::string_view tenant);
  // The last number, of any tenant; 0 when there never was an event.
  Result<std::int64_t> last_seq();

  // Of all tenants.
  Result<std::uint64_t> kept();
  [[nodiscard]] const std::uint64_t& evicted() const { return evicted_; }

 private:
  // Counts what every tenant has, on first use.
  Result<> count();
  Result<> make_room(const std::string& tenant);

  Database& database_;
  Statement append_, after_, evict_, lose_, lost_, last_, count_;
  UsageBounds bounds_;
  bool counted_ = false;
  TenantUsage usage_;
  std::map<std::string, std::int64_t, std::less<>> newest_;  // by tenant
  std::uint64_t evicted_ = 0;
};

}  // namespace cove::store
