#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// One lifecycle event of a tenant.
struct EventRow {
  std::int64_t seq = 0;  // given by `append`: over all tenants, always growing, never given twice
  std::int64_t at_unix_ms = 0;
  std::string tenant;
  std::string type;
  std::string sandbox;  // SandboxRow::name
  std::string pod_name;
  std::string data_json = "{}";

  bool operator==(const EventRow&) const = default;
};

class EventTable {
 public:
  static constexpr std::uint32_t kKept = 10'000;

  explicit EventTable(Database& database);

  // The number it got. `row.seq` is not looked at.
  Result<std::int64_t> append(const EventRow& row);
  // Those of the tenant with a greater number, oldest first.
  Result<std::vector<EventRow>> after(std::string_view tenant, std::int64_t seq, std::uint32_t limit);
  // Forgets all but the newest.
  Result<> prune(std::uint32_t keep = kKept);
  // The oldest number that is still kept, of any tenant; the one to be given next when nothing is kept.
  Result<std::int64_t> first_seq();
  // The number given last; 0 when none ever was.
  Result<std::int64_t> last_seq();

 private:
  Database& database_;
  Statement append_, after_, prune_, first_, last_;
};

}  // namespace cove::store
