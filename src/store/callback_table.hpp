#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// What somebody is to be told; the text itself lies apart and is read when it is sent. Outlives the sandbox it is
// about.
struct CallbackRow {
  std::string id;  // of the execution
  std::string tenant;
  std::string url;
  std::string secret;             // empty: not signed
  std::string state = "pending";  // delivered, failed
  std::uint32_t attempts = 0;
  std::int64_t next_unix_ms = 0;
  std::int32_t last_status = 0;  // 0: there was no answer
  std::string last_error;
  std::uint64_t size_bytes = 0;  // of the body; 0 when it is over

  bool operator==(const CallbackRow&) const = default;
};

class CallbackTable {
 public:
  explicit CallbackTable(Database& database);

  // Sets `size_bytes` to the size of `body`.
  Result<> insert(CallbackRow row, std::string_view body);
  // The state, attempts, next time and last words of this one. The body of one that is over is forgotten.
  Result<> update(const CallbackRow& row);
  Result<std::optional<CallbackRow>> find(std::string_view id);
  Result<std::optional<std::string>> body(std::string_view id);
  // Those that are not over, whoever's they are: id, tenant, attempts, next time and size, and nothing else.
  Result<std::vector<CallbackRow>> pending();
  // Looks at some of those after `after`, and forgets those that are over and about nothing that is remembered. Where
  // to go on; nullopt at the end.
  Result<std::optional<std::string>> sweep(std::string_view after);

 private:
  Database& database_;
  Statement insert_, insert_body_, update_, erase_body_, find_, body_, pending_, page_, sweep_;
};

}  // namespace cove::store
