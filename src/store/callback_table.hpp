#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/database.hpp"

namespace cove::store {

// What somebody is to be told. Outlives the sandbox it is about.
struct CallbackRow {
  std::string id;  // of the execution
  std::string tenant;
  std::string url;
  std::string secret;  // empty: not signed
  std::string body;
  std::string state = "pending";  // delivered, failed
  std::uint32_t attempts = 0;
  std::int64_t next_unix_ms = 0;
  std::int32_t last_status = 0;  // 0: there was no answer
  std::string last_error;

  bool operator==(const CallbackRow&) const = default;
};

class CallbackTable {
 public:
  explicit CallbackTable(Database& database);

  Result<> insert(const CallbackRow& row);
  // The state, attempts, next time and last words of this one.
  Result<> update(const CallbackRow& row);
  Result<std::optional<CallbackRow>> find(std::string_view id);
  // Those whose time has come, the longest waiting first.
  Result<std::vector<CallbackRow>> due(std::int64_t now_unix_ms, std::uint32_t limit);
  // When the next one's time comes; nullopt: nothing waits.
  Result<std::optional<std::int64_t>> next_time();
  // Those that are over, and about nothing that is remembered.
  Result<> sweep();

 private:
  Statement insert_, update_, find_, due_, next_, sweep_;
};

}  // namespace cove::store
