#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// A callback to deliver. Its body is stored apart and read when it is sent. Outlives the sandbox that it is about.
struct CallbackRow {
  std::string id;  // of the execution
  std::string tenant;
  std::string url;
  std::string secret;             // empty: not signed
  std::string state = "pending";  // delivered, failed
  std::uint32_t attempts = 0;
  std::int64_t next_unix_ms = 0;
  std::int32_t last_status = 0;  // 0: no answer
  std::string last_error;
  std::uint64_t size_bytes = 0;  // of the body; 0 once delivered or given up

  bool operator==(const CallbackRow&) const = default;
};

class CallbackTable {
 public:
  explicit CallbackTable(Database& database);

  // Sets `size_bytes` to the size of `body`.
  Result<> insert(CallbackRow row, std::string_view body);
  // Updates the state, the attempts, the next time and the last error. Deletes the body once it is delivered or given
  // up.
  Result<> update(const CallbackRow& row);
  Result<std::optional<CallbackRow>> find(std::string_view id);
  Result<std::optional<std::string>> body(std::string_view id);
  // All pending callbacks of every tenant, with only id, tenant, attempts, next time and size filled in.
  Result<std::vector<CallbackRow>> pending();
  // Examines a batch after `after`, and deletes those that are over and whose execution is forgotten. Returns where to
  // continue; nullopt at the end.
  Result<std::optional<std::string>> sweep(std::string_view after);

 private:
  Database& database_;
  Statement insert_, insert_body_, update_, erase_body_, find_, body_, pending_, page_, sweep_;
};

}  // namespace cove::store
